"""The messages between a worker and its child process: JSON, preceded by its length.

Exceptions travel as data. Only the classes listed here are rebuilt in the worker. The name of any other class
stays a name, so no message of a child can choose what the worker calls.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.core.failures.app_rules import Classification
from onward.core.failures.causes import sole
from onward.core.failures.classify import describe, judge
from onward.core.failures.handler_errors import Retry, Unrecoverable
from onward.core.failures.http_response import peek
from onward.core.failures.verdict import Verdict
from onward.core.jobs.job import Job
from onward.core.jobs.payload import encode, lenient
from onward.core.records.usage import Usage
from onward.core.secrets.redaction import Hide, redact_text
from onward.core.work.error_record import LONGEST_MESSAGE, ErrorRecord, message_of, shorten
from onward.core.work.lifecycle import Cancelled, End, RateLimited, Skip, Snooze
from onward.core.work.progress import Report
from onward.core.work.wait import Parked
from onward.errors import InvalidJob, NotAllowed, PayloadTooLarge

HEADER = struct.Struct(">I")
LARGEST = 64 * 1024 * 1024
"""The most bytes of one answer: a child must not exhaust the memory of its worker."""

REPORT_AGAIN = b""
"""The message to a child that it may report again, as the parent has room for its newest report."""

_LARGEST_FIELDS = 65_536


class Start(msgspec.Struct, frozen=True):
    """The first message: where the child finds the parent's program and database."""

    argv: list[str]
    main_name: str | None
    main_path: str | None
    url: str | None
    schema: str


class Ask(msgspec.Struct, frozen=True):
    """The request to run a job, with at most `memory` bytes more than the child has mapped."""

    reference: str
    memory: int | None
    job: Job


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The handler returned `result`."""

    result: Any


class Raised(msgspec.Struct, frozen=True, tag=True):
    """The handler raised: the results of `describe` and `judge`; for a listed class, its name and fields.

    The child judges the exception, because the exception itself does not travel.
    """

    described: ErrorRecord
    name: str | None = None
    fields: dict[str, Any] = {}
    verdict: Verdict | None = None


class Metered(msgspec.Struct, frozen=True, tag=True):
    """The handler has used something; sent at once, since a child that is ended sends no answer."""

    used: Usage


class Reported(msgspec.Struct, frozen=True, tag=True):
    """How far the handler is; the child sends the next only when it may report again."""

    report: Report


class Completing(msgspec.Struct, frozen=True, tag=True):
    """The handler is about to commit its own end; if the child dies now, only the database knows whether."""

    end: End


class Completed(msgspec.Struct, frozen=True, tag=True):
    """The handler has committed its own end; the orgs in `spent` have spent their budget by it."""

    spent: frozenset[str]


Answer = Returned | Raised
Note = Metered | Reported | Completing | Completed
Message = Answer | Note
"""What a child sends while it runs a job: any number of notes, then the answer."""


class ChildError(Exception):
    """An error of a handler in a child process; `described` has its class, message and traceback."""

    def __init__(self, described: ErrorRecord, verdict: Verdict | None = None) -> None:
        super().__init__(described.summary)
        self.described = described
        self.verdict = verdict


# The classes that are rebuilt, and the arguments to rebuild them; `message` stands for the text.
_OURS: Mapping[type[BaseException], tuple[str, ...]] = {
    Skip: ("reason",),
    Snooze: ("delay",),
    Parked: ("until", "event", "key", "seen"),
    RateLimited: ("after", "error", "counted"),
    Cancelled: ("reason",),
    Retry: ("message", "after"),
    Unrecoverable: ("message", "hint", "link"),
    InvalidJob: ("message",),
    NotAllowed: ("message",),
}
_BY_NAME = {kind.__name__: kind for kind in _OURS}


def pack(message: msgspec.Struct) -> bytes:
    """Return a message as bytes, preceded by its length."""
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body


def to_answer(end: object, hide: Hide = redact_text, own: Classification | None = None) -> bytes:
    """Return the packed answer for a handler's result or error; a result that is no JSON is a failure."""
    if isinstance(end, BaseException):
        return pack(_raised(end, hide, own or Classification()))
    try:
        return pack(Returned(_checked(end)))
    except Exception as error:  # noqa: BLE001 - the result's own methods may raise anything
        # Never as a listed class: an InvalidJob would blame the arguments.
        return pack(Raised(_described(error.with_traceback(None), hide)))


def rebuilt(raised: Raised) -> BaseException:
    """Return the exception that a child reported, rebuilt as its own class if that is listed."""
    kind = None if raised.name is None else _BY_NAME.get(raised.name)
    if kind is None:
        return ChildError(raised.described, raised.verdict)
    fields = dict(raised.fields)
    message = fields.pop("message", None)
    error = kind(**fields) if message is None else kind(message, **fields)
    # Keeps the name of a handler's own subclass, and the place where it was raised.
    error.described, error.verdict = raised.described, raised.verdict  # type: ignore[attr-defined]
    return error


def _checked(result: object) -> msgspec.Raw:
    """Return a result as JSON; raise an error that names the part that is no JSON."""
    try:
        # Accepts tuples, dates, UUIDs, dataclasses and the like, which have an obvious form.
        raw = msgspec.json.encode(result)
    except Exception:  # noqa: BLE001 - whatever it was, the stricter encoder says where and what to do
        raw = encode(result, limit=LARGEST, what="result").encode()
    if len(raw) > LARGEST - _LARGEST_FIELDS:
        raise PayloadTooLarge(
            f"result takes {len(raw)} bytes of JSON; the limit is {LARGEST}: store it and return a reference"
        )
    return msgspec.Raw(raw)


def _raised(error: BaseException, hide: Hide, own: Classification) -> Raised:
    described = _described(error, hide)
    verdict = judge(error, hide, own, datetime.now(UTC))
    # In a group with a single error, that error is what the handler meant.
    error = sole(error)
    for kind, names in _OURS.items():
        # By `type`, because isinstance may call a `__class__` property that fails.
        if issubclass(type(error), kind):
            fields = {name: _field(error, name, hide) for name in names}
            return Raised(described, kind.__name__, _plain(fields), verdict)
    return Raised(described, verdict=verdict)


def _field(error: BaseException, name: str, hide: Hide) -> object:
    value = message_of(error) if name == "message" else peek(error, name)
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case BaseException():
            return describe(value, hide).facts()
        case ErrorRecord():
            return value.facts()
        case str():
            return shorten(value, LONGEST_MESSAGE, hide)
    return value


def _described(error: BaseException, hide: Hide) -> ErrorRecord:
    return ErrorRecord.of(_plain(describe(error, hide).facts()))


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(lenient(dict(value), _LARGEST_FIELDS))
    return plain
