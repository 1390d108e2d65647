"""Findings about limited jobs: permits that are held, a reached rate, or a limit that no worker declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from onward.core.inputs.plain_text import count
from onward.core.limits.limit import SlotSeen, name_of
from onward.core.upkeep.diagnosis import Finding, fine, lasting, positional, problem, quoted, warning
from onward.core.upkeep.facts import Facts, SlotHolder

_NAMED = 3
_SHOWN = 10
_LONG = timedelta(minutes=1)


def waits_for_slot(slot: SlotSeen, holders: Sequence[SlotHolder]) -> Finding:
    """Return the finding for a job that waits for a permit of its limit."""
    about: dict[str, Any] = {
        "limit_key": slot.key,
        "active": slot.standing.active,
        "held_by": [holder.id for holder in holders],
    }
    if slot.terms is None:
        return problem("unknown_limit", _unknown(slot.key), "onward worker APP", **about)
    if slot.terms.slots is not None and slot.standing.active >= slot.terms.slots:
        held = f"{slot.standing.active} of {slot.terms.slots} are held by {_named(holders, slot)}"
        return fine(
            "limit_reached", f"it waits for a slot of limit {slot.key}: {held}", _raise(slot), **about
        )
    if slot.terms.ordered and slot.standing.away:
        return fine(
            "waits_in_line", f"it waits in the line {slot.key} for one that has to run again", **about
        )
    if slot.terms.rate is not None and not slot.turn.jobs:
        text = f"it waits for its turn: limit {slot.key} lets {slot.terms.rate} start"
        return fine("limit_reached", text, _raise(slot), **about)
    return fine(
        "waits_for_slot", f"a slot of limit {slot.key} is free; a worker makes it ready soon", **about
    )


def limits_reached(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each limit that jobs have waited for long, or that no worker declared."""
    for one in facts.slots[:_SHOWN]:
        slot, wait = one.slot, facts.now - one.oldest
        evidence = {"limit_key": slot.key, "jobs": one.jobs, "oldest": one.oldest}
        if slot.terms is None:
            title = f"{count(one.jobs, 'job', 'wait')}, and {_unknown(slot.key)}"
            yield problem("unknown_limit", title, "onward worker APP", **evidence)
        elif wait > _LONG and not slot.turn.jobs:
            yield warning(
                "limit_reached",
                f"limit {slot.key} is reached; {count(one.jobs, 'job')} wait, one for {lasting(wait)}",
                _raise(slot),
                active=slot.standing.active,
                **evidence,
            )


def _unknown(key: str) -> str:
    return f"no worker has declared the limit {name_of(key)}, so no job of it is made ready"


def _raise(slot: SlotSeen) -> str:
    by_rate = slot.terms is not None and slot.terms.slots is None
    option = "--rate …" if by_rate else "--concurrency …"
    return f"onward limits set {option} --reason … {positional(name_of(slot.key))}"


def _named(holders: Sequence[SlotHolder], slot: SlotSeen) -> str:
    names = [
        f"{holder.id} ({holder.state}{f' on {quoted(holder.worker_id)}' if holder.worker_id else ''})"
        for holder in holders[:_NAMED]
    ]
    more = slot.standing.active - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
