"""The stored error of an unsuccessful attempt: without secrets, and of a bounded size.

Text is cut to its bound only after its secrets are hidden: redaction does not recognise half a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from onward.core.jobs.payload import decode, lenient
from onward.core.secrets.redaction import Hide, Redaction

LONGEST_MESSAGE = 10_000
LONGEST_TRACEBACK = 20_000

_LONGEST_READ = 200_000
_LARGEST = 1_048_576
_LONGEST_SECRET = 5_000
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}", re.ASCII)


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an attempt failed, or why a job ended without success.

    `reason` says why the job ended, `rule` names the classification rule that decided. `repeats` counts
    failures in a row with this `fingerprint`. `cause` is the job whose end
    cancelled this one. `detail` holds what has no field of its own.
    """

    error_class: str | None = None
    message: str | None = None
    reason: str | None = None
    rule: str | None = None
    status: int | None = None
    hint: str | None = None
    link: str | None = None
    fingerprint: str | None = None
    repeats: int | None = None
    cause: str | None = None
    traceback: str | None = None
    detail: Mapping[str, Any] = {}

    @classmethod
    def of(cls, error: ErrorLike) -> ErrorRecord:
        """Return an error as a record; what fits no field of a mapping is in `detail`."""
        match error:
            case ErrorRecord():
                return error
            case Mapping():
                return cls._of_facts(error)
            case BaseException():
                return cls(type(error).__name__, message_of(error))
        return cls(message=str(error))

    @classmethod
    def read(cls, text: str) -> ErrorRecord:
        """Return a record that any version has stored; never raises."""
        try:
            facts = decode(text)
        except ValueError:
            return cls(message="(the stored error could not be read)")
        return cls._of_facts(facts if isinstance(facts, Mapping) else {"value": facts})

    @classmethod
    def _of_facts(cls, facts: Mapping[str, Any]) -> ErrorRecord:
        fields: dict[str, Any] = {}
        detail: dict[str, Any] = {}
        for name, value in facts.items():
            if value is not None:
                fits = isinstance(value, _TYPES.get(name, ())) and not isinstance(value, bool)
                (fields if fits else detail)[name] = value
        return cls(**{**fields, "detail": {**fields.get("detail", {}), **detail}})

    def facts(self) -> dict[str, Any]:
        """Return the fields that are known, in the form in which they are stored."""
        known = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in known if value is not None and value != {}}

    @property
    def summary(self) -> str:
        """The class and the message as one text; without a message, the reason stands in its place."""
        return ": ".join(part for part in (self.error_class, self.message or self.reason) if part)

    @property
    def label(self) -> str:
        """The class for a metric: a short plain name, or `other`."""
        return self.error_class if self.error_class and _CLASS.fullmatch(self.error_class) else "other"

    def redacted(self, redaction: Redaction, secrets: frozenset[str] = frozenset()) -> ErrorRecord:
        """Return the record without secrets; `secrets` are further texts to hide."""
        return self._of_facts(redaction.redact(self.facts(), secrets))


ErrorLike = ErrorRecord | Mapping[str, Any] | BaseException | str
"""What an outcome takes as its error; `ErrorRecord.of` makes a record of it."""

_TYPES: Mapping[str, type] = {
    **dict.fromkeys(ErrorRecord.__struct_fields__, str),
    "status": int,
    "repeats": int,
    "detail": Mapping,
}


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or a placeholder if its `__str__` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the handler's own __str__ may raise anything
        return "(its message could not be read)"


def shorten(text: str, longest: int, hide: Hide, *, end: bool = False) -> str:
    """Hide the secrets of a text, then cut it to at most `longest` characters of its start or its end."""
    read = text[-_LONGEST_READ:] if end else text[:_LONGEST_READ]
    hidden = hide(read)
    if len(read) < len(text):
        # The first cut may have left half a secret at its edge, which shows only if much else was hidden.
        hidden = hidden[_LONGEST_SECRET:] if end else hidden[:-_LONGEST_SECRET]
    return hidden[-longest:] if end else hidden[:longest]


def sanitise(error: ErrorRecord, payload: object, redaction: Redaction) -> ErrorRecord:
    """Return a record of plain JSON without secrets, including secrets of the job's payload."""
    facts = error.facts()
    if "detail" in facts:
        facts["detail"] = sanitise_facts(facts["detail"], payload, redaction)
    return ErrorRecord.of(sanitise_facts(facts, payload, redaction))


def sanitise_facts(facts: Mapping[str, Any], payload: object, redaction: Redaction) -> dict[str, Any]:
    """Return what a handler says of its attempt as plain JSON of a bounded size, without secrets."""
    hide = redaction.hider(payload)
    cut = {
        name: shorten(value, LONGEST_TRACEBACK, hide, end=name == "traceback")
        if isinstance(value, str)
        else value
        for name, value in facts.items()
    }
    plain = decode(lenient(cut, _LARGEST))
    hidden: dict[str, Any] = redaction.redact(plain, redaction.secrets_of(payload))
    return hidden
