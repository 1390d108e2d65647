"""Findings about jobs that follow others: which parents have not ended, and which are dead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onward.core.inputs.plain_text import count
from onward.core.upkeep.diagnosis import Finding, fine, problem, warning
from onward.core.upkeep.facts import Facts, ParentSeen

_NAMED = 3
_SHOWN = 10


def waits_for(awaited: Sequence[ParentSeen]) -> Finding:
    """Return the finding for a job that waits for others, with the remedy if one of them is dead."""
    about: dict[str, Any] = {
        "waits_for": [{"job_id": one.id, "job_type": one.job_type, "state": one.state} for one in awaited],
    }
    dead = [one for one in awaited if one.state == "dead"]
    if dead:
        return problem(
            "blocked_by_dead",
            f"it waits for {count(len(awaited), 'job')}: {_named(awaited)}; {dead[0].job_type} is dead: "
            "replay it, or discard it, which cancels this one",
            f"onward dead replay {dead[0].id} --reason …",
            **about,
        )
    return fine("blocked", f"it waits for {count(len(awaited), 'job')}: {_named(awaited)}", **about)


def dead_followed(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each dead job that other jobs still wait for."""
    for one in facts.dead_followed[:_SHOWN]:
        yield warning(
            "dead_followed",
            f"job {one.id} ({one.job_type}) is dead, and {count(one.jobs, 'job', 'wait')} for its replay",
            f"onward dead replay {one.id} --reason …",
            job_id=one.id,
            job_type=one.job_type,
            jobs=one.jobs,
        )


def _named(awaited: Sequence[ParentSeen]) -> str:
    names = [f"{one.job_type} ({one.state})" for one in awaited[:_NAMED]]
    more = len(awaited) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
