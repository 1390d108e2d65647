"""The facts on which a diagnosis is based: values read from the database and from this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Literal

import msgspec

from onward.core.failures.breaker import Breaker
from onward.core.jobs.job import Job
from onward.core.limits.admission import PermitsSeen
from onward.core.limits.pause import TypeSkip
from onward.core.policy.category import Slo
from onward.core.work.effect import Effect
from onward.core.work.wait import Awaited as AwaitedSignal


class Hold(msgspec.Struct, frozen=True):
    """The closed gate, a pause, or the spent budget of an org: its actor, time and reason."""

    scope: Literal["gate", "queue", "org", "job_type", "budget"]
    name: str
    reason: str
    actor: str | None
    since: datetime


class WorkerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a worker; `queues` is None if it serves all, `job_types` None if it may know all.

    One with an org or a project runs only jobs of these. `signatures` has the fingerprint of each job type of
    its own.
    """

    HIDDEN: ClassVar = frozenset({"signatures"})

    id: str
    org_id: str | None = None
    project_id: str | None = None
    kind: str = "worker"
    application: str | None = None
    host: str | None = None
    pid: int | None = None
    concurrency: int | None = None
    queues: Mapping[str, int | None] | None = None
    job_types: frozenset[str] | None = None
    providers: Mapping[str, str] = {}
    signatures: Mapping[str, str] = {}
    schedules: frozenset[str] | None = None
    started_at: datetime
    seen_at: datetime
    lease_until: datetime
    lost_at: datetime | None = None

    def may_run(self, org_id: str | None, project_id: str | None) -> bool:
        """Whether it may run jobs of this org and project."""
        return self.org_id in {None, org_id} and self.project_id in {None, project_id}

    def lives(self, now: datetime) -> bool:
        """Whether its lease is valid."""
        return self.lost_at is None and self.lease_until > now

    @property
    def retired(self) -> bool:
        """Whether it shut down in good order: it ended its lease itself, before the lease ran out."""
        return self.lost_at == self.lease_until

    @property
    def last_seen_at(self) -> datetime:
        """When it last reported."""
        return max(self.seen_at, self.lost_at) if self.lost_at and self.retired else self.seen_at

    def serves(self, queue: str) -> bool:
        """Whether it claims from a queue."""
        return self.queues is None or queue in self.queues

    def knows(self, job_type: str) -> bool:
        """Whether it has a handler for a job type."""
        return self.job_types is None or job_type in self.job_types

    def defines(self, schedule: str) -> bool:
        """Whether its code defines a schedule."""
        return self.schedules is None or schedule in self.schedules


class QueueSeen(msgspec.Struct, frozen=True):
    """A queue with ready jobs: their number, up to a cap, and when the oldest became due."""

    name: str
    jobs: int
    oldest: datetime


class QueueLoad(msgspec.Struct, frozen=True):
    """A queue with a policy: how many jobs run, up to `concurrency`, and for how long none may start."""

    name: str
    running: int
    concurrency: int | None
    rate: float | str | None
    wait: timedelta = timedelta()

    @property
    def full(self) -> bool:
        """Whether its concurrency is reached."""
        return self.concurrency is not None and self.running >= self.concurrency

    @property
    def reached(self) -> bool:
        """Whether its policy holds jobs back; a rate counts as reached, since it is free only for moments."""
        return self.full or self.rate is not None


class TypeSeen(msgspec.Struct, frozen=True):
    """A job type among the next ready jobs of a queue."""

    queue: str
    job_type: str
    category: str
    jobs: int
    oldest: datetime


class RunningSeen(msgspec.Struct, frozen=True):
    """How many jobs of a queue a worker runs, among the jobs that were read."""

    worker_id: str
    queue: str
    jobs: int


class HolderSeen(msgspec.Struct, frozen=True):
    """Running jobs of a silent worker: since when (None if it has no row), and their number, up to a cap."""

    worker_id: str
    since: datetime | None
    jobs: int


class FailureSeen(msgspec.Struct, frozen=True):
    """Jobs of a type that wait to run again after an error of this class; `job_id` is one of them."""

    job_type: str
    error_class: str | None
    jobs: int
    job_id: str | None = None


class DeadSeen(msgspec.Struct, frozen=True):
    """Unresolved dead jobs of a type: all, those of the last hour, and those of the hour before."""

    job_type: str
    error_class: str | None
    jobs: int
    last_hour: int
    hour_before: int
    newest: datetime


class ParentSeen(msgspec.Struct, frozen=True):
    """A job for which another waits; a removed job has neither type nor state."""

    id: str
    job_type: str
    state: str


class FollowedDead(msgspec.Struct, frozen=True):
    """A dead job for whose replay other jobs wait, and their number."""

    id: str
    job_type: str
    jobs: int


class PermitHolder(msgspec.Struct, frozen=True):
    """A job that holds a permit of a limit: it is ready, or runs on a worker."""

    id: str
    state: str
    worker_id: str | None


class PermitsAwaited(msgspec.Struct, frozen=True):
    """A key of a limit for which jobs wait: their number, up to a cap, and when the oldest became due."""

    permit: PermitsSeen
    jobs: int
    oldest: datetime


class SinkSeen(msgspec.Struct, frozen=True):
    """A sink that failed to send alerts: how many wait or were given up, and its last error."""

    name: str
    messages: int
    tries: int
    error: str


class ScheduleSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is overdue, or whose last occurrence was late, was refused or failed."""

    name: str
    job_type: str
    source: str
    next_at: datetime | None
    warm_up: timedelta = timedelta()
    occurrence: datetime | None = None
    fired_at: datetime | None = None
    late: bool = False
    outcome: str | None = None
    error: str | None = None
    job_id: str | None = None


class Burn(msgspec.Struct, frozen=True):
    """The jobs of a category in the last hour, and how many started late, or are late and still wait."""

    category: str
    slo: Slo
    jobs: int
    late: int


class VacuumHolder(msgspec.Struct, frozen=True):
    """What keeps PostgreSQL from removing dead rows: a transaction, a prepared one, or a replication slot."""

    kind: str
    name: str | None
    pid: int | None
    state: str | None
    seconds: int | None
    age: int | None


class DatabaseSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the database; a field of only one of the two kinds is None or empty for the other."""

    kind: Literal["sqlite", "postgres"]
    version: str
    schema: int | None = None
    round_trip: timedelta = timedelta()
    pooler: bool = False
    log_bytes: int = 0
    live_rows: int | None = None
    dead_rows: int | None = None
    autovacuum: bool | None = None
    listeners: int | None = None
    vacuum_holders: Sequence[VacuumHolder] = ()
    table: str = "live"
    damage: Sequence[str] = ()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that `check` uses; `now` is the database's clock, `here` this process's."""

    now: datetime
    here: datetime
    holds: Sequence[Hold] = ()
    skips: Sequence[TypeSkip] = ()
    workers: Sequence[WorkerSeen] = ()
    ready: Sequence[QueueSeen] = ()
    loads: Mapping[str, QueueLoad] = {}
    types: Sequence[TypeSeen] = ()
    running: Sequence[RunningSeen] = ()
    silent: Sequence[HolderSeen] = ()
    next_due: datetime | None = None
    overdue: int = 0
    schedules: Sequence[ScheduleSeen] = ()
    failures: Sequence[FailureSeen] = ()
    dead: Sequence[DeadSeen] = ()
    dead_followed: Sequence[FollowedDead] = ()
    newest_ended: Mapping[str, int] = {}
    burns: Sequence[Burn] = ()
    breakers: Sequence[Breaker] = ()
    permits: Sequence[PermitsAwaited] = ()
    sinks: Sequence[SinkSeen] = ()
    listeners: int | None = None

    @property
    def gate(self) -> Hold | None:
        """The closed gate; None if it is open."""
        return next((hold for hold in self.holds if hold.scope == "gate"), None)

    def living(self) -> list[WorkerSeen]:
        """Return the workers whose lease is valid."""
        return [worker for worker in self.workers if worker.lives(self.now)]


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that `explain` uses; `workers` is None if the client may not see them."""

    job: Job
    now: datetime
    holds: Sequence[Hold] = ()
    workers: Sequence[WorkerSeen] | None = None
    ahead: int | None = None
    load: QueueLoad | None = None
    breakers: Sequence[Breaker] = ()
    effects: Sequence[Effect] = ()
    awaited: Sequence[ParentSeen] = ()
    signal: AwaitedSignal | None = None
    permit: PermitsSeen | None = None
    holders: Sequence[PermitHolder] = ()
    resolution: str | None = None
    dry_run: bool = False
