"""Findings about workers: living workers, ticks that a cron calls regularly, or neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

from onward.core.inputs.plain_text import count
from onward.core.policy.application import DeclaredTypes, name_for
from onward.core.upkeep.diagnosis import Finding, fine, found, lasting, problem, warning
from onward.core.upkeep.facts import Facts, WorkerSeen

OVERDUE = timedelta(seconds=60)
"""How late promotion may be before no worker seems to promote; how far two clocks may differ."""

_LEASE = 30
_LEAST_SILENCE = timedelta(minutes=5)
_RHYTHM = 6
_SHOWN = 10


def servers(workers: Sequence[WorkerSeen], now: datetime) -> list[WorkerSeen]:
    """Return the workers that can be expected to run jobs: living ones, and a regular cron's last tick."""
    ticks = ticks_of(workers)
    keeping = ticks[:1] if ticks and now - ticks[0].last_seen_at <= _longest_silence(ticks) else []
    return [worker for worker in workers if worker.lives(now) or worker in keeping]


def patience(workers: Sequence[WorkerSeen], now: datetime) -> timedelta:
    """Return how late a job may be made ready: where only ticks run, as late as the next tick may be."""
    counted_on = servers(workers, now)
    only_ticks = counted_on and all(one.kind == "tick" for one in counted_on)
    return _longest_silence(ticks_of(workers)) if only_ticks else OVERDUE


def last_seen(workers: Sequence[WorkerSeen], kind: str) -> datetime | None:
    """Return when a worker of this kind, `worker` or `tick`, was last seen; None if there was none."""
    return max((worker.last_seen_at for worker in workers if worker.kind == kind), default=None)


def ticks_of(workers: Sequence[WorkerSeen]) -> list[WorkerSeen]:
    """Return the ticks, the latest first."""
    return sorted(
        (one for one in workers if one.kind == "tick"), key=lambda one: one.last_seen_at, reverse=True
    )


def shared_types(mine: DeclaredTypes, other: WorkerSeen) -> str:
    """Return the advice for two applications without a name that declare the same job types."""
    both = mine.shared(DeclaredTypes(other.application or "", other.signatures))
    more = f" and {count(len(both) - 1, 'other job type')}" if len(both) > 1 else ""
    return (
        f"worker {other.host}:{other.pid} of another application ({other.application}) also handles "
        f'"{both[0]}"{more} on this database; each may run the other\'s jobs. '
        f'Give one a name: Onward(name="{name_for(mine.application)}")'
    )


def sharing_workers(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each two applications whose workers handle the same job types."""
    applications = {one.application: one for one in facts.living() if one.application}
    for one, other in combinations(applications.values(), 2):
        mine = DeclaredTypes(one.application or "", one.signatures)
        both = mine.shared(DeclaredTypes(other.application or "", other.signatures))
        if both:
            yield warning(
                "types_shared",
                f"workers of two applications ({one.application}, {other.application}) handle "
                f"{both[0]} on this database; each may run the other's jobs",
                f'give one a name: Onward(name="{name_for(mine.application)}")',
                applications=[one.application, other.application],
                job_types=both[:_SHOWN],
            )


def who_works(facts: Facts) -> Iterator[Finding]:
    """Yield the finding on workers and ticks; a cron that is switched off shows as a long silence."""
    tick, worker = last_seen(facts.workers, "tick"), last_seen(facts.workers, "worker")
    evidence: dict[str, Any] = {"last_worker": worker, "last_tick": tick}
    counted_on = servers(facts.workers, facts.now)
    ticks, living = ticks_of(facts.workers), facts.living()
    if tick is not None and facts.ready and not living and counted_on == ticks and len(ticks) == 1:
        yield _one_tick(facts.now - tick, evidence)
    elif counted_on:
        slots = sum(one.concurrency or 0 for one in living)
        works = (
            f"{count(len(living), 'worker')}, {count(slots, 'slot')}"
            if living
            else "no worker runs, only ticks come"
        )
        ticked = "" if tick is None else f"; last tick {lasting(facts.now - tick)} ago"
        yield fine("workers", f"{works}{ticked}", **evidence)
    elif tick is not None and (worker is None or tick > worker):
        rhythm = _longest_silence(ticks)
        yield found(
            "tick_silent",
            "problem" if facts.ready or facts.overdue else "warning",
            f"the last tick was {lasting(facts.now - tick)} ago; the cron that calls it is off or fails",
            "onward tick APP",
            expected_within_seconds=round(rhythm.total_seconds()),
            **evidence,
        )
    else:
        ago = None if worker is None else lasting(facts.now - worker)
        last = "none ever has" if ago is None else f"the last one {ago} ago"
        retired = worker is not None and facts.now - worker < timedelta(seconds=_LEASE)
        yield problem(
            "no_worker",
            f"no worker lives; the last one ended {ago} ago"
            if retired
            else f"no worker has reported in the last {_LEASE} s ({last})",
            "onward worker APP",
            **evidence,
        )


def _one_tick(ago: timedelta, evidence: Mapping[str, Any]) -> Finding:
    """Return a warning for a single tick, most likely run by hand: no other tick can be expected."""
    title = (
        f"no worker runs, and only one tick has come, {lasting(ago)} ago; what is ready waits for the next"
    )
    return warning("no_worker", title, "onward worker APP", **evidence)


def _longest_silence(ticks: Sequence[WorkerSeen]) -> timedelta:
    """Return how long a cron may be silent: twice its usual interval, but at least `_LEAST_SILENCE`."""
    # The median of the last intervals: one tick by hand, or one night without ticks, must not change it.
    gaps = sorted(later.started_at - one.started_at for later, one in pairwise(ticks[:_RHYTHM]))
    return max(_LEAST_SILENCE, 2 * gaps[len(gaps) // 2]) if gaps else _LEAST_SILENCE
