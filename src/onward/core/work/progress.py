"""How far a running job is: what its handler reports, and what is stored of it."""

from __future__ import annotations

from collections.abc import Sized
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from onward.core.inputs.fields import check_text
from onward.core.secrets.redaction import Hide, redact_text
from onward.core.work.lease import JobLease
from onward.errors import InvalidJob, InvalidSetting

if TYPE_CHECKING:
    from onward.core.jobs.job import Job

LONGEST_NOTE = 200
"""The longest note of a report, in bytes of UTF-8."""

_MOST = 10**15
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Report(msgspec.Struct, frozen=True, gc=False):
    """What a handler reports: how much is done, of how much, and a note."""

    done: int | float
    total: int | float | None = None
    note: str | None = None

    @classmethod
    def checked(cls, done: Any, total: Any = None, note: Any = None, hide: Hide = redact_text) -> Report:
        """Return the report, its note without secrets; raise InvalidSetting for what can't be stored."""
        shown = None if note is None else _cut(hide(_checked_note(note)))
        return cls(_number("done", done), check_total(total), shown)


class JobReport(JobLease, frozen=True):
    """The report of a running job, and the lease under which it runs."""

    report: Report

    @classmethod
    def of(cls, job: Job, report: Report) -> JobReport:
        """Return the report of a claimed job."""
        return cls(job.id, job.lease, job.attempt, report)


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far a job is, as it was stored at `at`; `total` is None if the handler did not report it."""

    DERIVED: ClassVar = ("fraction",)

    done: int | float
    total: int | float | None
    note: str | None
    at: datetime

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1; None without a total."""
        if self.total is None:
            return None
        return min(1.0, self.done / self.total) if self.total else 1.0


class _Stored(msgspec.Struct, gc=False):
    done: int | float
    at: int
    total: int | float | None = None
    note: str | None = None


_decode = msgspec.json.Decoder(_Stored).decode


def read_progress(text: str) -> Progress:
    """Return the progress that a database holds as JSON; raise ValueError if it is none."""
    stored = _decode(text)
    return Progress(stored.done, stored.total, stored.note, _EPOCH + timedelta(microseconds=stored.at))


def check_total(total: Any) -> int | float | None:
    """Return the total of a report; raise InvalidSetting if it is neither None nor a number from 0."""
    return None if total is None else _number("total", total)


def count(items: object) -> int | None:
    """Return how many items there are; None if that is known only at their end."""
    return len(items) if isinstance(items, Sized) else None


def _number(name: str, value: Any) -> int | float:
    # Only NaN differs from itself; a bool is an int, but no amount.
    kind = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not kind or value != value or not 0 <= value <= _MOST:  # noqa: PLR0124
        raise InvalidSetting(f"{name} is {value!r:.80}; give a number from 0 to {_MOST}")
    return int(value) if isinstance(value, int) else float(value)


def _cut(note: str) -> str:
    # What stands for a secret may be longer than the secret.
    return note.encode()[:LONGEST_NOTE].decode(errors="ignore")


def _checked_note(note: Any) -> str:
    try:
        check_text("note", note, longest=LONGEST_NOTE)
    except InvalidJob as error:
        # The handler's argument is wrong, not the job.
        raise InvalidSetting(str(error)) from None
    return str(note)
