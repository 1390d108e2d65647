"""A small model of keys and their jobs: what the database must agree with, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

WAITING = {"scheduled", "queued"}
ENDED = {"succeeded", "dead", "cancelled"}
RETRY = timedelta(seconds=5)
FOREVER = None


@dataclass
class ModelJob:
    """One job as the rules say that it should be."""

    payload: int
    run_at: datetime
    now: datetime
    max_attempts: int
    state: str = "queued"
    attempt: int = 0
    rerun: tuple[int, datetime, int] | None = None
    cancel_requested: bool = False

    def __post_init__(self) -> None:
        self.wait(self.run_at, self.now)

    def wait(self, run_at: datetime, now: datetime) -> None:
        self.run_at = run_at
        self.state = "queued" if run_at <= now else "scheduled"

    def start_again(self, payload: int, run_at: datetime, max_attempts: int, now: datetime) -> None:
        self.payload, self.attempt, self.max_attempts = payload, 0, max_attempts
        self.rerun, self.cancel_requested = None, False
        self.wait(run_at, now)

    def end(self, outcome: str, now: datetime) -> None:
        """Settle a run."""
        state: str
        match outcome:
            case "succeeded" | "dead":
                state = outcome
            case "gave way":
                state = "cancelled"
            case "failed":
                state = "dead" if self.attempt >= self.max_attempts else "scheduled"
            case _:
                state = "scheduled" if outcome == "snoozed" else "queued"
                self.attempt -= 1
        if state in WAITING and self.cancel_requested:
            state = "cancelled"
            self.attempt += outcome in {"snoozed", "released"}
        if self.rerun is not None:
            payload, run_at, max_attempts = self.rerun
            self.start_again(payload, run_at, max_attempts, now)
            return
        self.state = state
        if state in WAITING:
            self.run_at = now if outcome == "released" else now + RETRY


@dataclass
class Held:
    """Who holds a key, and until when also after its end."""

    job: ModelJob
    expires: datetime | None
    first_seen: datetime


@dataclass
class Model:
    """All jobs and keys of one history."""

    now: datetime
    jobs: list[ModelJob] = field(default_factory=list)
    keys: dict[str, Held] = field(default_factory=dict)

    def enqueue(
        self,
        key: str,
        payload: int,
        *,
        lifetime: timedelta | None,
        mode: str,
        reset_from: frozenset[str] | None,
        delay: timedelta,
        max_attempts: int,
    ) -> tuple[ModelJob, bool, str | None]:
        """Give the job that the caller gets, whether it is new, and what was done to one that was there."""
        held = self.keys.get(key)
        expires = FOREVER if lifetime is None else self.now + lifetime
        if held is None or (
            held.job.state in ENDED and held.expires is not None and held.expires <= self.now
        ):
            job = ModelJob(payload, self.now + delay, self.now, max_attempts)
            self.jobs.append(job)
            self.keys[key] = Held(job, expires, self.now)
            return job, True, None
        job = held.job
        change = self._change(job, mode, reset_from, (payload, self.now + delay, max_attempts))
        if change is not None:
            held.expires = expires
        return job, False, change

    def _change(
        self,
        job: ModelJob,
        mode: str,
        reset_from: frozenset[str] | None,
        asked: tuple[int, datetime, int],
    ) -> str | None:
        payload, run_at, max_attempts = asked
        match mode:
            case "replace" if job.state in WAITING:
                job.payload = payload
                job.wait(run_at, self.now)
                return "replaced"
            case "reset" if reset_from is None or job.state in reset_from:
                if job.state == "running":
                    job.rerun = (payload, run_at, max_attempts)
                    return "rerun_requested"
                job.start_again(payload, run_at, max_attempts, self.now)
                return "reset"
            case "coalesce" if job.state in WAITING:
                job.payload += payload
                return "coalesced"
            case "coalesce" if job.state == "running":
                job.rerun = (payload + (job.rerun[0] if job.rerun else job.payload), run_at, max_attempts)
                return "rerun_requested"
        return None

    def promote(self) -> None:
        for job in self.jobs:
            if job.state == "scheduled" and job.run_at <= self.now:
                job.state = "queued"

    def claim(self, limit: int) -> list[ModelJob]:
        """Give the ready jobs that come first; those that came first are first in the list."""
        ready = sorted((job for job in self.jobs if job.state == "queued"), key=lambda job: job.run_at)
        for job in ready[:limit]:
            job.state = "running"
            job.attempt += 1
        return ready[:limit]

    def cancel(self, job: ModelJob) -> None:
        if job.state in WAITING:
            job.state = "cancelled"
        elif job.state == "running":
            job.cancel_requested, job.rerun = True, None

    def prune(self) -> None:
        self.keys = {
            key: held
            for key, held in self.keys.items()
            if held.job.state not in ENDED or held.expires is None or held.expires > self.now
        }

    def status(self, key: str) -> str | None:
        """Say how the ledger should call what became of a key."""
        held = self.keys.get(key)
        if held is None:
            return None
        job = held.job
        if job.state == "scheduled" and job.attempt > 0:
            return "failed"
        return {"scheduled": "pending", "queued": "pending", "cancelled": "failed"}.get(job.state, job.state)
