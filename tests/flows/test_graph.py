"""A graph of a thousand jobs comes to rest exactly where a model says, on both databases."""

from __future__ import annotations

import random

import pytest

from onward import Client, Failed, NewJob, Succeeded
from onward.core.flows.flow import Flow
from tests.extent import FULL
from tests.flows.model import Node, final_states, random_nodes

WORKER = "worker"
QUEUE = "q"


def new(node: Node, after: tuple[str, ...] = ()) -> NewJob:
    return NewJob(
        job_type=f"t{node.place}",
        queue=QUEUE,
        after=after,
        after_needs=node.needs,
        after_failure=node.on_failure,
    )


def store(client: Client, nodes: list[Node], ids: dict[int, str]) -> None:
    """Store the next part of a graph: links within the part, and `after` what is stored already."""
    at = {node.place: place for place, node in enumerate(nodes)}
    jobs = [new(node, tuple(ids[one] for one in node.parents if one not in at)) for node in nodes]
    links = [(at[one], at[node.place]) for node in nodes for one in node.parents if one in at]
    for node, answer in zip(nodes, client.enqueue_flow(Flow(tuple(jobs), tuple(links))), strict=True):
        ids[node.place] = answer.id


def run_some(client: Client, nodes: list[Node], rounds: int, at_once: int = 60) -> bool:
    """Claim and finish; False when nothing was ready."""
    for _ in range(rounds):
        jobs = client.worker.claim(QUEUE, at_once, worker_id=WORKER)
        fates = [nodes[int(job.job_type[1:])].fate for job in jobs]
        ends = [Succeeded() if fate == "succeeded" else Failed("no", retryable=False) for fate in fates]
        client.worker.finish([job.end_with(end) for job, end in zip(jobs, ends, strict=True)])
        # As the loop of a worker does.
        settled = client.worker.follow_up()
        if not jobs and not settled:
            return False
    return True


def states(client: Client, ids: dict[int, str]) -> list[str]:
    found = client.jobs.get_many(list(ids.values()))
    return [str(found[ids[place]].state) for place in range(len(ids))]


@pytest.mark.parametrize("seed", [6, 40] if FULL else [6])
def test_a_graph_of_a_thousand_jobs_ends_as_the_model_says(client: Client, seed: int) -> None:
    nodes = random_nodes(seed, 1000)
    client.worker.register(WORKER)
    ids: dict[int, str] = {}
    store(client, nodes[:600], ids)
    run_some(client, nodes, rounds=4)

    # Somebody cancels in the middle, what waits for others and what is ready.
    waiting = [place for place, state in enumerate(states(client, ids)) if state in {"blocked", "queued"}]
    known = dict.fromkeys(random.Random(seed).sample(waiting, 12), "cancelled")
    for place in known:
        client.jobs.cancel(ids[place], reason="not needed")

    # The rest waits for jobs that run, that have ended, and for each other.
    store(client, nodes[600:800], ids)
    run_some(client, nodes, rounds=2)
    store(client, nodes[800:], ids)
    while run_some(client, nodes, rounds=5):
        pass

    expected = final_states(nodes, known)
    assert states(client, ids) == expected
    assert {"succeeded", "dead", "cancelled", "blocked"} == set(expected)
    for place in (place for place, state in enumerate(expected) if state == "cancelled"):
        assert [event.event for event in client.jobs.events(ids[place])].count("job.cancelled") == 1

    # Replayed, the dead succeed; who waited for that runs, and who was cancelled stays so.
    before = {place: state for place, state in enumerate(expected) if state in {"succeeded", "cancelled"}}
    dead = [place for place, state in enumerate(expected) if state == "dead"]
    for place in dead:
        nodes[place].fate = "succeeded"
    client.dead.replay([ids[place] for place in dead], reason="mended")
    while run_some(client, nodes, rounds=5):
        pass
    expected = final_states(nodes, before)
    assert states(client, ids) == expected
