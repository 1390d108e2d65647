"""A checker: what became of every job, against the invariants that no fault may break.

I1  no accepted job is lost, none is there that nobody enqueued
I2  at most one accepted end for each lease, and for each job
I4  attempts stay within the limit, and each has a record of its start, its end and why
I5  the audit tells the whole story, and adds up to the states of the jobs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from onward import Client, JobState
from onward.core.jobs.history import Attempt, Event
from onward.core.jobs.job import ENDED
from onward.results import Job, Page

__all__ = ["broken", "longest_wait", "lost_jobs"]

STATE_AFTER = {
    "job.succeeded": JobState.SUCCEEDED,
    "job.skipped": JobState.SUCCEEDED,
    "job.deadlettered": JobState.DEAD,
    "job.cancelled": JobState.CANCELLED,
}
GOES_BACK = {"job.failed", "job.released", "job.snoozed", "job.rate_limited"}
SETTLES = {*STATE_AFTER, *GOES_BACK}


def broken(client: Client, ids: Collection[str], *, running: Collection[str] = ()) -> list[str]:
    """Tell which invariant broke, and for which job; all but those that may still run must have ended."""
    found = _read(client, ids)
    out = [f"I1 lost: {job_id}" for job_id in ids if job_id not in found]
    counts = client.jobs.count()
    there = sum(counts.total(state) for state in JobState)
    if there > len(found):
        out.append(f"I1 ghosts: {there} jobs are there, {len(found)} of them were enqueued")
    seen: Counter[JobState] = Counter()
    for job in found.values():
        if job.state not in ENDED and job.id not in running:
            out.append(f"I1 stuck: {job.id} is {job.state}")
        events, attempts = client.jobs.events(job.id), client.jobs.attempts(job.id)
        seen[_told_state(events)] += 1
        out += [f"{what}: {job.id} {_story(events)}" for what in _flaws(job, events, attempts)]
    out += [
        f"I5 {state}: the audit tells of {seen[state]}, counted are {counts.total(state)}"
        for state in ENDED
        if seen[state] != counts.total(state)
    ]
    return out


def lost_jobs(client: Client, ids: Collection[str]) -> list[str]:
    """Give the jobs of which an attempt was lost with its worker."""
    return [job_id for job_id in ids if any(run.outcome == "lost" for run in client.jobs.attempts(job_id))]


def longest_wait(client: Client, ids: Collection[str], since: datetime) -> float:
    """Give the seconds until the last of these jobs was started again."""
    waits = []
    for job_id in ids:
        starts = [event.at for event in client.jobs.events(job_id) if event.event == "job.started"]
        waits.append((min(at for at in starts if at > since) - since).total_seconds())
    return max(waits)


def _read(client: Client, ids: Collection[str]) -> dict[str, Job]:
    asked = list(ids)
    found: dict[str, Job] = {}
    for at in range(0, len(asked), 500):
        found |= client.jobs.get_many(asked[at : at + 500])
    return found


def _flaws(job: Job, events: Page[Event], attempts: Page[Attempt]) -> Iterator[str]:
    yield from _second_ends(events)
    yield from _bad_records(job, events, attempts)
    if [event.event for event in events].count("job.enqueued") != 1 or events[0].event != "job.enqueued":
        yield "I5 the audit does not begin with one job.enqueued"
    state = JobState.QUEUED if job.state == JobState.SCHEDULED else job.state
    if _told_state(events) != state:
        yield f"I5 the audit tells {_told_state(events)}, the job is {job.state}"


def _second_ends(events: Page[Event]) -> Iterator[str]:
    ends = [event for event in events if event.event in STATE_AFTER]
    if len(ends) > 1:
        yield f"I2 ended {len(ends)} times"
    settled = Counter(event.lease for event in events if event.event in SETTLES and event.lease is not None)
    # The attempt at which a job dies has failed, too: its two events are one end.
    settled.subtract(
        [event.lease for event in ends if event.event == "job.deadlettered" and event.lease is not None]
    )
    for lease, times in settled.items():
        if times > 1:
            yield f"I2 lease {lease} was settled {times} times"


def _bad_records(job: Job, events: Page[Event], attempts: Page[Attempt]) -> Iterator[str]:
    if job.attempt > job.max_attempts:
        yield f"I4 attempt {job.attempt} of {job.max_attempts}"
    started = [event.lease or 0 for event in events if event.event == "job.started"]
    recorded = [run.lease for run in attempts]
    if sorted(started) != sorted(recorded):
        yield f"I4 leases {started} were started, {recorded} have a record"
    for run in attempts:
        if run.ended_at is None and job.state == JobState.RUNNING and run.lease == job.lease:
            continue
        if run.duration is None or run.duration < timedelta(0) or not run.outcome:
            yield f"I4 the record of lease {run.lease} is not whole"
        if run.outcome in {"failed", "lost"} and not run.error:
            yield f"I4 the record of lease {run.lease} does not tell why"


def _told_state(events: Page[Event]) -> JobState:
    """Tell the state that the audit leads to; queued stands for scheduled too."""
    state = JobState.QUEUED
    for event in events:
        if event.event in STATE_AFTER:
            state = STATE_AFTER[event.event]
        elif event.event == "job.started":
            state = JobState.RUNNING
        elif event.event in GOES_BACK:
            state = JobState.QUEUED
    return state


def _story(events: Page[Event]) -> str:
    return " → ".join(f"{event.event.removeprefix('job.')}({event.lease})" for event in events)
