"""Dead letters: why a job died, what would help, which share a cause, and how each was resolved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from onward.core.inputs.plain_text import kind_of
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidJob, InvalidSetting


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of dead letters; a field that is None sets none. `group` is a fingerprint."""

    resolved: Literal["no", "yes", "any"] = "no"
    job_type: str | None = None
    org_id: str | None = None
    subject: str | None = None
    error_class: str | None = None
    group: str | None = None


class Resolution(msgspec.Struct, frozen=True):
    """How one death of a job was resolved; `diff` and `successor_id` are those of a fix."""

    lease: int
    resolution: Literal["replayed", "discarded", "fixed"]
    at: datetime
    actor_type: str | None
    actor_id: str | None
    reason: str
    successor_id: JobId | None
    diff: list[dict[str, Any]] | None


class DeadLetter(msgspec.Struct, frozen=True):
    """A job that died: why, what would help, and how it was resolved (None: not yet)."""

    job: Job
    reason: str | None
    error_class: str | None
    message: str | None
    hint: str | None
    link: str | None
    rule: str | None
    status: int | None
    fingerprint: str | None
    resolution: Resolution | None

    @classmethod
    def of(cls, job: Job, resolution: Resolution | None) -> DeadLetter:
        """Make a dead letter from a job and its last error."""
        error = job.error or ErrorRecord()
        return cls(
            job=job,
            reason=error.reason,
            error_class=error.error_class,
            message=error.message,
            hint=error.hint,
            link=error.link,
            rule=error.rule,
            status=error.status,
            fingerprint=error.fingerprint,
            resolution=resolution,
        )

    @property
    def successor_id(self) -> JobId | None:
        """The job that was made to replace it."""
        return None if self.resolution is None else self.resolution.successor_id


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fix changes in a job: its payload, replaced or patched, and where and how it runs.

    `patch` is merged into the payload; a null removes a field.
    """

    payload: Mapping[str, Any] | None = None
    patch: Mapping[str, Any] | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None

    def check(self) -> None:
        """Raise for edits that no job can have."""
        if self.payload is not None and self.patch is not None:
            raise InvalidSetting(
                "payload and patch are both set; give the new payload, or a patch of the old one"
            )
        for name, value in (("payload", self.payload), ("patch", self.patch)):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidJob(f"{name} is {kind_of(value)}; give a dict of arguments")


class FixPreview(msgspec.Struct, frozen=True):
    """What a fix would change in a job, or why it would be refused."""

    job_id: JobId
    diff: list[dict[str, Any]] | None
    refused: str | None


class DeadGroup(msgspec.Struct, frozen=True):
    """Unresolved jobs that died of the same cause.

    `message`, `hint`, `link`, `rule` and `status` are those of the newest job, `latest`; `pattern` is what
    the messages have in common. `capped` means that there are more than `count` jobs; `first_at`, `last_at`
    and `orgs` then cover only the newest `count`.
    """

    fingerprint: str
    job_type: str
    error_class: str | None
    message: str | None
    pattern: str
    count: int
    capped: bool
    first_at: datetime
    last_at: datetime
    orgs: int
    reason: str | None
    hint: str | None
    link: str | None
    rule: str | None
    status: int | None
    latest: JobId
