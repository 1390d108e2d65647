"""Findings about limited jobs: permits that are held, a reached rate, or a limit that no worker declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from onward.core.inputs.plain_text import count
from onward.core.limits.admission import PermitsSeen
from onward.core.limits.limit import name_of
from onward.core.upkeep.diagnosis import Finding, fine, lasting, positional, problem, quoted, warning
from onward.core.upkeep.facts import Facts, PermitHolder

_NAMED = 3
_SHOWN = 10
_LONG = timedelta(minutes=1)


def waits_for_permit(permit: PermitsSeen, holders: Sequence[PermitHolder]) -> Finding:
    """Return the finding for a job that waits for a permit of its limit."""
    about: dict[str, Any] = {
        "limit_key": permit.key,
        "active": permit.standing.active,
        "held_by": [holder.id for holder in holders],
    }
    if permit.terms is None:
        return problem("unknown_limit", _unknown(permit.key), "onward worker APP", **about)
    if permit.terms.permits is not None and permit.standing.active >= permit.terms.permits:
        held = f"{permit.standing.active} of {permit.terms.permits} are held by {_named(holders, permit)}"
        return fine(
            "limit_reached", f"it waits for a permit of limit {permit.key}: {held}", _raise(permit), **about
        )
    if permit.terms.ordered and permit.standing.away:
        return fine(
            "waits_in_line", f"it waits in the line {permit.key} for one that has to run again", **about
        )
    if permit.terms.rate is not None and not permit.admission.jobs:
        text = f"limit {permit.key} lets {permit.terms.rate} start, and it waits for that"
        return fine("limit_reached", text, _raise(permit), **about)
    return fine(
        "waits_for_permit", f"a permit of limit {permit.key} is free; a worker makes it ready soon", **about
    )


def limits_reached(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each limit that jobs have waited for long, or that no worker declared."""
    for one in facts.permits[:_SHOWN]:
        permit, wait = one.permit, facts.now - one.oldest
        evidence = {"limit_key": permit.key, "jobs": one.jobs, "oldest": one.oldest}
        if permit.terms is None:
            title = f"{count(one.jobs, 'job', 'wait')}, and {_unknown(permit.key)}"
            yield problem("unknown_limit", title, "onward worker APP", **evidence)
        elif wait > _LONG and not permit.admission.jobs:
            yield warning(
                "limit_reached",
                f"limit {permit.key} is reached; "
                f"{count(one.jobs, 'job')} wait, the oldest for {lasting(wait)}",
                _raise(permit),
                active=permit.standing.active,
                **evidence,
            )


def _unknown(key: str) -> str:
    return f"no worker has declared the limit {name_of(key)}, so no job of it is made ready"


def _raise(permit: PermitsSeen) -> str:
    by_rate = permit.terms is not None and permit.terms.permits is None
    option = "--rate …" if by_rate else "--concurrency …"
    return f"onward limits set {option} --reason … {positional(name_of(permit.key))}"


def _named(holders: Sequence[PermitHolder], permit: PermitsSeen) -> str:
    names = [
        f"{holder.id} ({holder.state}{f' on {quoted(holder.worker_id)}' if holder.worker_id else ''})"
        for holder in holders[:_NAMED]
    ]
    more = permit.standing.active - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
