"""The ends of attempts as workers report them: a lease and an outcome that can be read from JSON.

An outcome that a handler raises is an exception, which has no form in JSON, and durations have several; each
such outcome has a form here, which is converted back before it is settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onward.core.inputs.duration import duration
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.job import Job, JobState
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import JobLease
from onward.core.work.lifecycle import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
    not_claimed,
)
from onward.core.work.wait import Parked
from onward.errors import InvalidSetting

Length = Annotated[float, Meta(ge=0)] | str
"""A duration: seconds, or text such as "90s" or "1h30m"."""

StoredError = ErrorRecord | str
"""An error as it is stored, or only its message."""


class OutcomeForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of an outcome that can be read from JSON."""


class SkippedForm(OutcomeForm, frozen=True, tag="skipped"):
    """There was nothing to do."""

    reason: str


class SnoozedForm(OutcomeForm, frozen=True, tag="snoozed"):
    """The job was not ready yet and is to run again after a delay."""

    delay: Length


class ParkedForm(OutcomeForm, frozen=True, tag="parked"):
    """The job waits for an instant or a signal."""

    until: Instant | None = None
    event: str | None = None
    key: str | None = None
    seen: tuple[str, ...] = ()


class FailedForm(OutcomeForm, frozen=True, tag="failed"):
    """The attempt failed."""

    error: StoredError
    retryable: bool = True
    after: Length | None = None


class RateLimitedForm(OutcomeForm, frozen=True, tag="rate_limited"):
    """A provider refused the call for now."""

    after: Length | None = None
    error: StoredError = "rate limited"
    counted: bool | None = None


class CancelledForm(OutcomeForm, frozen=True, tag="cancelled"):
    """Cancellation was requested, and the handler stopped."""

    reason: str = "cancelled"


class ReleasedForm(OutcomeForm, frozen=True, tag="released"):
    """The worker returned the job unfinished."""

    delay: Length | None = None
    error: ErrorRecord | None = None


AnyOutcomeForm = (
    Succeeded
    | SkippedForm
    | SnoozedForm
    | ParkedForm
    | FailedForm
    | RateLimitedForm
    | CancelledForm
    | ReleasedForm
    | Lost
)

_OUTCOMES: Mapping[type[OutcomeForm], type] = {
    SkippedForm: Skip,
    SnoozedForm: Snooze,
    ParkedForm: Parked,
    FailedForm: Failed,
    RateLimitedForm: RateLimited,
    CancelledForm: Cancelled,
    ReleasedForm: Released,
}
_FORMS: Mapping[type, type[OutcomeForm]] = {outcome: form for form, outcome in _OUTCOMES.items()}


class JobEnd(JobLease, frozen=True):
    """The end of an attempt: the lease under which it ran, and its outcome."""

    outcome: AnyOutcomeForm

    @classmethod
    def of(cls, job: Job, outcome: Outcome) -> JobEnd:
        """Return the end of a claimed job; raise LeaseLost for a job that is under no lease."""
        if job.state != JobState.RUNNING:
            raise not_claimed(job)
        return cls(job.id, job.lease, job.attempt, form_of(outcome))

    def read_outcome(self) -> Outcome:
        """Return the outcome as the state machine takes it; raise InvalidSetting for an invalid duration."""
        if not isinstance(self.outcome, OutcomeForm):
            return self.outcome
        return _OUTCOMES[type(self.outcome)](*msgspec.structs.astuple(self.outcome))  # type: ignore[no-any-return]


def form_of(outcome: Outcome) -> AnyOutcomeForm:
    """Return an outcome in the form that can be read from JSON; raise InvalidSetting for what is none."""
    if isinstance(outcome, Succeeded | Lost):
        return outcome
    form = _FORMS.get(type(outcome))
    if form is None:
        raise InvalidSetting(
            f"{outcome!r:.80} is no outcome; give Succeeded(…), Failed(…) or another of them"
        )
    return form(*[_plain(name, getattr(outcome, name)) for name in form.__struct_fields__])  # type: ignore[return-value]


def _plain(name: str, value: Any) -> Any:
    match value:
        case timedelta():
            return duration(name, value).total_seconds()
        case BaseException() | Mapping():
            return ErrorRecord.of(value)
    return value
