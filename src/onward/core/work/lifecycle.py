"""The state machine: what the outcome of one attempt does to its job.

`settle()` is the only place that decides the next state of a running job; other code writes its decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from onward.core.failures.fingerprint import recognised
from onward.core.inputs.duration import Duration, duration
from onward.core.jobs.job import ENDED, Job, JobState
from onward.core.records.usage import Usage
from onward.core.secrets.redaction import REDACTION, Redaction
from onward.core.work.error_record import ErrorLike, ErrorRecord, sanitise, sanitise_facts
from onward.core.work.lease import JobLease
from onward.core.work.progress import Report
from onward.core.work.retry import LONGEST_DELAY, RetryPolicy
from onward.core.work.wait import Parked, Wait
from onward.errors import InvalidSetting, LeaseLost

_LOST = "WorkerLost"
_LOST_HINT = (
    "the process died or stood still; look at its log and memory at that time: "
    "executor='process' keeps a job that crashes from taking others along"
)
_UNCLASSIFIED = "unclassified"

_S = JobState

MOVES: Mapping[JobState, frozenset[JobState]] = {
    _S.SCHEDULED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.BLOCKED: frozenset({_S.QUEUED, _S.SCHEDULED, _S.CANCELLED}),
    _S.QUEUED: frozenset({_S.RUNNING, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.QUEUED, _S.SCHEDULED, _S.SUCCEEDED, _S.DEAD, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset({_S.QUEUED, _S.SCHEDULED}),
    _S.DEAD: frozenset({_S.QUEUED, _S.SCHEDULED}),
    _S.CANCELLED: frozenset({_S.QUEUED, _S.SCHEDULED}),
}
"""The legal moves; only an operator or a reset moves a job out of an ended state."""


class Succeeded(msgspec.Struct, frozen=True, tag="succeeded", forbid_unknown_fields=True):
    """The handler returned; its result is stored."""

    result: Any = None


# These exceptions are values too: a handler may return or raise them, and a caller that finishes a job by
# hand passes them.


@dataclass(eq=False)
class Skip(Exception):
    """There was nothing to do: the job ends as succeeded, with outcome skipped."""

    reason: str


@dataclass(eq=False)
class Snooze(Exception):
    """Not ready yet: the job goes back and burns no attempt."""

    delay: Duration

    def __post_init__(self) -> None:
        """Refuse an invalid duration here, in the handler, where it fails like any other error."""
        duration("delay", self.delay)


class Failed(msgspec.Struct, frozen=True):
    """The attempt failed; `retryable=False` ends the job at once, `after` replaces the back-off."""

    error: ErrorLike
    retryable: bool = True
    after: Duration | None = None


@dataclass(eq=False)
class RateLimited(Exception):
    """A provider refused the call for now; the job runs again `after` a delay, or by the back-off if None.

    It burns no attempt unless it is `counted`; None leaves that to the category of the job. After
    `RetryPolicy.max_rate_limit_waits` such waits that burnt no attempt, the job is dead.
    """

    after: Duration | None = None
    error: ErrorLike = "rate limited"
    counted: bool | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid duration here, in the handler, where it fails like any other error."""
        if self.after is not None:
            duration("after", self.after)


@dataclass(eq=False)
class Cancelled(Exception):
    """Cancellation was requested, and the handler stopped."""

    reason: str = "cancelled"


class Released(msgspec.Struct, frozen=True):
    """The worker gives the job back unfinished, at once or after a delay; this burns no attempt."""

    delay: Duration | None = None
    error: ErrorRecord | None = None


class Lost(msgspec.Struct, frozen=True, tag="lost", forbid_unknown_fields=True):
    """The worker's lease ran out, or another process saw `how` it died; a crash burns an attempt."""

    how: str | None = None


Outcome = Succeeded | Skip | Snooze | Parked | Failed | RateLimited | Cancelled | Released | Lost


class Transition(msgspec.Struct, frozen=True, gc=False):
    """What is written for an outcome: the next state, the counters, and the reason."""

    state: JobState
    event: str
    outcome: str
    attempt: int
    waits: int
    crashes: int
    delay: timedelta = timedelta()
    error: ErrorRecord | None = None
    result: Any = None
    wait: Wait | None = None

    @property
    def ends(self) -> bool:
        """Whether the job ends, and so leaves the live table."""
        return self.state in ENDED

    @property
    def error_class(self) -> str | None:
        """The class of the error, for a metric; None if there is no error."""
        return None if self.error is None else self.error.label

    def cancelled(self) -> Transition:
        """Return the transition to write instead when cancellation was requested before the job went back."""
        return replace(
            self,
            state=_S.CANCELLED,
            event="job.cancelled",
            outcome="cancelled",
            delay=timedelta(),
            wait=None,
        )


class End(msgspec.Struct, frozen=True, gc=False):
    """A transition for one lease of one job; it is refused if the lease is no longer the newest.

    `progress` is the last report of the run, if it is not stored yet.
    """

    job_id: str
    lease: int
    ran: int
    transition: Transition
    usage: tuple[Usage, ...] = ()
    actions: Mapping[str, str] | None = None
    progress: Report | None = None

    @classmethod
    def of(  # noqa: PLR0917 - keywords cost each job a tenth of a microsecond
        cls,
        job: Job,
        outcome: Outcome,
        policy: RetryPolicy,
        dice: float = 1.0,
        usage: tuple[Usage, ...] = (),
        actions: Mapping[str, str] | None = None,
        redaction: Redaction = REDACTION,
    ) -> End:
        """Settle a claimed job; `dice` in [0, 1) spreads the retries, `usage` is what its run has used.

        `actions` are the names that its job type uses for events in the audit.
        """
        if isinstance(outcome, Succeeded):
            return cls.of_success(job, outcome, usage, actions)
        if job.state != _S.RUNNING:
            raise not_claimed(job)
        to = _settle_hidden(job, outcome, policy, dice, redaction)
        return cls(job.id, job.lease, job.attempt, to, usage, actions)

    @classmethod
    def of_success(
        cls, job: Job, outcome: Succeeded, usage: tuple[Usage, ...], actions: Mapping[str, str] | None
    ) -> End:
        """Settle a claimed job that succeeded, the usual case, which needs no retry policy."""
        if job.state != _S.RUNNING:
            raise not_claimed(job)
        return cls(job.id, job.lease, job.attempt, _success(job, outcome.result), usage, actions)

    @classmethod
    def stale(cls, lease: JobLease) -> End:
        """Return an end for a lease that is over: to write it changes nothing, but the audit gets a line."""
        return cls(lease.job_id, lease.lease, lease.attempt, _as_it_was(lease.attempt, 0, 0))

    @property
    def action(self) -> str | None:
        """The name that the job type uses for this end in the audit."""
        return None if self.actions is None else self.actions.get(self.transition.event)

    @property
    def failed_action(self) -> str | None:
        """The name that the job type uses in the audit for an attempt that fails."""
        return None if self.actions is None else self.actions.get("job.failed")

    def cancelled(self) -> End:
        """Return the end of a job that can't go back, because its cancellation was requested while it ran."""
        to = self.transition
        error = to.error or ErrorRecord(reason="cancelled on request")
        return replace(self, transition=replace(to, attempt=self.ran, error=error).cancelled())


def _settle_hidden(
    job: Job, outcome: Outcome, policy: RetryPolicy, dice: float, redaction: Redaction
) -> Transition:
    """Settle without secrets: every error or reason of a handler that is stored or shown passes here."""
    if isinstance(outcome, Failed | RateLimited):
        # Hide secrets before settling: the failure is compared with the stored one, whose secrets are hidden.
        hidden = sanitise(ErrorRecord.of(outcome.error), job.payload, redaction)
        return settle(job, outcome, policy, dice, recognised(job.job_type, hidden, job.error))
    to = settle(job, outcome, policy, dice)
    if to.outcome == "skipped":
        return replace(to, result=sanitise_facts(to.result, job.payload, redaction))
    if to.error is None:
        return to
    hidden = sanitise(to.error, job.payload, redaction)
    if isinstance(outcome, Lost):
        hidden = recognised(job.job_type, hidden, job.error)
    return replace(to, error=hidden)


def settle(  # noqa: C901, PLR0911 - one state machine, one match
    job: Job, outcome: Outcome, policy: RetryPolicy, dice: float = 1.0, stored: ErrorRecord | None = None
) -> Transition:
    """Decide what an outcome does to a running job; `stored` is the stored form of its failure."""
    as_it_was = _as_it_was(job.attempt, job.waits, job.crashes)
    unburnt = _as_it_was(job.attempt - 1, job.waits, job.crashes)
    match outcome:
        case Succeeded(result):
            return _success(job, result)
        case Skip(reason):
            return _succeed(as_it_was, "skipped", {"reason": reason})
        case Cancelled(reason):
            return replace(as_it_was, error=ErrorRecord(reason=reason)).cancelled()
        case Released(delay, error):
            return unburnt if delay is None else _later(unburnt, "released", delay, error)
        case Snooze(delay):
            return _later(unburnt, "snoozed", delay)
        case Parked():
            # The time at which the job is due is written with its wait, not from this delay.
            return replace(_later(unburnt, "parked", LONGEST_DELAY), wait=outcome.wait(job.deadline))
        case RateLimited(after, error, counted=True):
            wait = _limited_wait(after, policy, job.attempt, dice)
            return _retry(job, as_it_was, stored or ErrorRecord.of(error), wait)
        case RateLimited(after, error) if job.waits < policy.max_rate_limit_waits:
            waited = replace(unburnt, waits=job.waits + 1)
            wait = _limited_wait(after, policy, waited.waits, dice)
            return _later(waited, "rate_limited", wait, stored or ErrorRecord.of(error))
        case RateLimited(_, error):
            return _bury(as_it_was, replace(stored or ErrorRecord.of(error), reason="rate_limited_too_often"))
        case Failed(error, retryable=False):
            return _die(as_it_was, "unrecoverable", stored or ErrorRecord.of(error))
        case Failed(error, after=after):
            wait = _wait(after, policy, job.attempt, dice)
            return _retry(job, as_it_was, stored or ErrorRecord.of(error), wait, policy.poison_after)
        case Lost(how):
            return _lose(job, as_it_was, how, policy, dice)
    raise InvalidSetting(f"{outcome!r:.80} is no outcome; give Succeeded(…), Failed(…) or another of them")


def _wait(after: Duration | None, policy: RetryPolicy, failure: int, dice: float) -> Duration:
    return policy.wait(failure, dice) if after is None else duration("after", after)


def _limited_wait(after: Duration | None, policy: RetryPolicy, failure: int, dice: float) -> Duration:
    # A delay that is over is ignored: without any delay, the job would use up all its waits at once.
    over = after is not None and duration("after", after) <= timedelta()
    return _wait(None if over else after, policy, failure, dice)


def _lose(job: Job, as_it_was: Transition, how: str | None, policy: RetryPolicy, dice: float) -> Transition:
    crashed = replace(as_it_was, crashes=job.crashes + 1)
    wait = policy.delay_after_crash(job.crashes + 1, job.attempt, dice)
    # Fingerprints ignore quoted text: the failure is the same whichever worker was lost.
    message = f"worker {job.worker_id!r} {how or 'stopped renewing its lease'}"
    lost = ErrorRecord(_LOST, message, rule="worker_lost", hint=_LOST_HINT)
    return replace(_retry(job, crashed, lost, wait), outcome="lost")


# Cached because a worker needs it for each job, and most jobs share a few values of these counters.
@lru_cache(maxsize=256)
def _as_it_was(attempt: int, waits: int, crashes: int) -> Transition:
    return Transition(_S.QUEUED, "job.released", "released", attempt, waits, crashes)


@lru_cache(maxsize=256)
def _plain_success(attempt: int, waits: int, crashes: int) -> Transition:
    return _succeed(_as_it_was(attempt, waits, crashes), "succeeded", None)


def _success(job: Job, result: Any) -> Transition:
    plain = _plain_success(job.attempt, job.waits, job.crashes)
    return plain if result is None else replace(plain, result=result)


def not_claimed(job: Job) -> LeaseLost:
    """Return the error for an outcome of a job that is under no lease."""
    return LeaseLost(f"job {job.id} is {job.state}, under no lease; finish only what claim() gave you")


def _succeed(transition: Transition, outcome: str, result: Any) -> Transition:
    return replace(transition, state=_S.SUCCEEDED, event=f"job.{outcome}", outcome=outcome, result=result)


def _retry(
    job: Job,
    transition: Transition,
    error: ErrorRecord,
    wait: Duration,
    poison_after: int | None = None,
) -> Transition:
    if job.attempt >= job.max_attempts:
        reason = "crash_loop" if _loops(job, transition) else "attempts_exhausted"
        return _die(transition, reason, error)
    if poison_after is not None and _is_poison(error, poison_after):
        return _die(transition, "poison", error)
    return _later(transition, "failed", wait, error)


def _loops(job: Job, transition: Transition) -> bool:
    """Whether the worker was lost in this attempt and in the one before."""
    crashed = transition.crashes > job.crashes > 0
    return crashed and job.error is not None and job.error.error_class == _LOST


def _is_poison(error: ErrorRecord, after: int) -> bool:
    """Whether a job has failed at least `after` times in a row in one way that no rule classifies."""
    return (error.repeats or 1) >= after and error.rule in {None, _UNCLASSIFIED}


def _later(
    transition: Transition, outcome: str, wait: Duration, error: ErrorRecord | None = None
) -> Transition:
    # A provider may have set the wait: one too large to add to a database's clock must not block the write.
    delay = min(max(duration("delay", wait), timedelta()), LONGEST_DELAY)
    return replace(
        transition, state=_S.SCHEDULED, event=f"job.{outcome}", outcome=outcome, delay=delay, error=error
    )


def _die(transition: Transition, reason: str, error: ErrorRecord) -> Transition:
    """Return the death of a job; a reason that the error states goes before `reason`."""
    return _bury(transition, replace(error, reason=error.reason or reason))


def _bury(transition: Transition, error: ErrorRecord) -> Transition:
    return replace(transition, state=_S.DEAD, event="job.deadlettered", outcome="failed", error=error)
