"""The audit of a random history equals its state changes one to one.

A promotion is no event: when a job falls due is written with the event that scheduled it.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from onward import Client, Failed, JobState, NewJob, Outcome, Succeeded
from onward.results import Job
from tests.extent import FULL
from tests.records.audit.audit_history import NOW, OUTCOMES, WHO

STEPS = 70
CLOSED = {"succeeded", "dead", "cancelled"}
GOES_BACK = {("running", "queued"), ("running", "scheduled")}

# What each event says of a job's state, from what to what.
CHANGES = {
    "job.enqueued": {("", "queued"), ("", "scheduled")},
    "job.started": {("queued", "running")},
    "job.succeeded": {("running", "succeeded")},
    "job.skipped": {("running", "succeeded")},
    "job.deadlettered": {("running", "dead")},
    "job.cancelled": {(state, "cancelled") for state in ("running", "queued", "scheduled")},
    "job.cancel_requested": {("running", "running, to be cancelled")},
    "job.failed": GOES_BACK,
    "job.snoozed": GOES_BACK,
    "job.rate_limited": GOES_BACK,
    "job.released": GOES_BACK,
}


class Seen(NamedTuple):
    state: str
    unwanted: bool
    lease: int


def seen(client: Client) -> dict[str, Seen]:
    return {
        job.id: Seen(job.state.value, job.cancel_requested_at is not None, job.lease)
        for job in client.jobs.list(limit=1000).items
    }


class History:
    """Random operations, and the changes that a look at the tables before and after each of them shows."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.dice = random.Random(seed)
        self.now = NOW
        self.lives = 0
        self.held: list[Job] = []
        self.refused: Counter[str] = Counter()
        self.changes: dict[str, list[tuple[str, str]]] = {}
        self.worker = ""

    def run(self) -> None:
        self.start_worker()
        operations = [
            self.enqueue, self.enqueue, self.claim, self.claim, self.finish, self.finish, self.finish,
            self.finish_late, self.cancel, self.lose_worker, self.promote,
        ]  # fmt: skip
        before = seen(self.client)
        for _ in range(STEPS):
            self.now += timedelta(seconds=self.dice.randrange(20))
            operation = self.dice.choice(operations)
            operation()
            after = seen(self.client)
            for job_id, to in after.items():
                self.note(job_id, before.get(job_id), to, promoting=operation == self.promote)
            before = after

    def note(self, job_id: str, was: Seen | None, to: Seen, *, promoting: bool) -> None:
        if was == to or (promoting and was is not None):
            return
        state = "running, to be cancelled" if was and was.state == to.state and to.unwanted else to.state
        self.changes.setdefault(job_id, []).append((was.state if was else "", state))

    def start_worker(self) -> None:
        self.lives += 1
        self.worker = f"life {self.lives}"
        self.client.at(self.now).worker.register(self.worker, lease=timedelta(days=1))

    def enqueue(self) -> None:
        delay = self.dice.choice([None, timedelta(seconds=15)])
        job = NewJob(job_type="t", delay=delay, max_attempts=self.dice.randrange(1, 4), **WHO)
        self.client.at(self.now).enqueue_many([job] * self.dice.randrange(1, 4))

    def claim(self) -> None:
        self.held += self.client.at(self.now).worker.claim(
            "q:default", self.dice.randrange(1, 5), worker_id=self.worker
        )

    def finish(self) -> None:
        count = min(len(self.held), self.dice.randrange(1, 4))
        # An old lease of a job and its newest one in one call are another test's.
        jobs = list({job.id: job for job in self.dice.sample(self.held, count)}.values())
        self.held = [job for job in self.held if job not in jobs]
        count = len(jobs)
        outcomes = self.dice.choices([*OUTCOMES.values()], k=count)
        answer = self.client.at(self.now).worker.finish(
            [job.end_with(outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
        )
        self.refused.update(answer.lost)

    def finish_late(self) -> None:
        """Write an end under a lease that is over, or was never given."""
        if not (jobs := self.client.jobs.list(limit=1000).items):
            return
        job = self.dice.choice(jobs)
        stale = replace(job, lease=10_000, attempt=max(1, job.attempt), state=JobState.RUNNING)
        late: Outcome = Succeeded() if self.dice.random() < 0.5 else Failed("late")
        assert self.client.at(self.now).worker.finish([stale.end_with(late)]).lost == {job.id}
        self.refused[job.id] += 1

    def cancel(self) -> None:
        jobs = self.client.jobs.list(limit=1000).items
        if jobs:
            self.client.at(self.now).jobs.cancel(self.dice.choice(jobs).id, reason="no need")

    def lose_worker(self) -> None:
        self.client.at(self.now).worker.retire(self.worker)
        self.client.at(self.now).worker.rescue().require()
        self.start_worker()

    def promote(self) -> None:
        self.client.at(self.now).worker.promote()


@pytest.mark.parametrize("seed", range(4 if FULL else 1))
def test_the_audit_of_a_random_history_equals_its_state_changes_one_to_one(client, seed):
    # S4-5, S4-52, S0-5
    history = History(client, seed)
    history.run()
    assert history.changes
    for job_id, changes in history.changes.items():
        events = [event.event for event in client.jobs.events(job_id)]
        assert events.count("job.stale_result_rejected") == history.refused[job_id]
        # The attempt at which a job dies has failed: its two events are one change.
        told = [
            event
            for event, later in zip(events, [*events[1:], ""], strict=True)
            if event != "job.stale_result_rejected" and (event, later) != ("job.failed", "job.deadlettered")
        ]
        assert len(told) == len(changes), (told, changes)
        assert all(change in CHANGES[event] for event, change in zip(told, changes, strict=True)), (
            told,
            changes,
        )
    every = Counter(record.job_id for record in client.audit.export())
    assert set(every) == set(history.changes)
    assert client.audit.verify().intact
