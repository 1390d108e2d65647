"""What a flow should come to, worked out apart from the code that does it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

Needs = Literal["succeeded", "ended"]
OnFailure = Literal["cancel", "wait"]

__all__ = ["Node", "final_states", "random_nodes"]


NEEDS: list[Needs] = ["succeeded", "succeeded", "ended"]
ON_FAILURE: list[OnFailure] = ["cancel", "cancel", "wait"]


@dataclass
class Node:
    """A job of a graph: what it waits for, and what its run would come to."""

    place: int
    parents: list[int] = field(default_factory=list)
    needs: Needs = "succeeded"
    on_failure: OnFailure = "cancel"
    fate: str = "succeeded"


def random_nodes(seed: int, count: int) -> list[Node]:
    """Give a graph with chains, a wide fan-out, a wide fan-in, and deaths."""
    dice = random.Random(seed)
    nodes = [Node(0)]
    for place in range(1, count):
        near = range(max(0, place - 40), place)
        parents = sorted(set(dice.choices(near, k=dice.choice([0, 1, 1, 2, 3]))))
        if count // 4 < place < count // 2 and place % 3 == 0:
            parents = sorted({*parents, count // 4})
        if place == count // 2:
            parents = list(range(place - 60, place, 2)) if place > 60 else list(range(place))
        nodes.append(
            Node(
                place,
                parents,
                needs=dice.choice(NEEDS),
                on_failure=dice.choice(ON_FAILURE),
                fate="dead" if dice.random() < 0.08 and place != count // 4 else "succeeded",
            )
        )
    return nodes


def final_states(nodes: list[Node], known: dict[int, str]) -> list[str]:
    """Work out where each job comes to rest; `known` are those that somebody else has decided."""
    states: list[str] = []
    for node in nodes:
        if node.place in known:
            states.append(known[node.place])
            continue
        came_to = [states[parent] for parent in node.parents]
        waits = "blocked" in came_to
        if node.needs == "succeeded":
            fatal = {"cancelled"} if node.on_failure == "wait" else {"cancelled", "dead"}
            if fatal & set(came_to):
                states.append("cancelled")
                continue
            waits = waits or "dead" in came_to
        states.append("blocked" if waits else node.fate)
    return states
