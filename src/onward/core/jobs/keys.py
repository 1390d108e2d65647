"""Idempotency keys: the canonical form of their inputs, and the documented key formats.

Equal inputs have the same key; different job types, orgs or projects never share one. Canonical JSON is JSON
with

- keys sorted by code point, and no spaces;
- equal numbers written alike: without a fraction as the exact integer (1.0 is 1, -0.0 is 0, 1e3 is 1000),
  else in the shortest form that reads back as the same number (0.1); booleans are not numbers;
- text in Unicode's form NFC;
- times in UTC, with microseconds and "Z": aware datetimes, and text that is an RFC 3339 timestamp.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from unicodedata import normalize
from uuid import UUID

from onward.core.inputs.fields import LONGEST
from onward.core.inputs.plain_text import kind_of
from onward.errors import InvalidJob, InvalidSetting

_DEPTH = 64
# A datetime holds at most six digits of fraction, and cutting more would make unequal times equal.
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6}0*)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_FIELD = re.compile(r"\{([^{}]*)\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical_json(value: object) -> str:
    """Write a value as JSON, equal values as equal text; also accepts datetimes, UUIDs and tuples."""
    try:
        return json.dumps(
            _canonical(value, "$", 0), ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )
    except InvalidJob:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidJob(f"the input of a key has a number or a time out of range: {error}") from None


def stable_hash(value: object) -> str:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def job_key(job_type: str, org_id: str | None, project_id: str | None, value: object) -> str:
    """Make the key `<job_type>:<org_id>:<project_id?>:<stable_hash>`.

    An absent org or project leaves its place empty (`type:org::hash`). Inside a part, `%` and `:` are
    percent-escaped, so that different parts never form the same key.
    """
    return f"{_part(job_type)}:{_part(org_id)}:{_part(project_id)}:{stable_hash(value)}"


def dedupe_key(job_type: str, org_id: str | None, payload: object) -> str:
    """Make the key `<type>::<org_id or global>::<sorted-json>`.

    Escapes parts as `job_key` does, and also an org named "global". If the key would be too long to store,
    `sha256:<hash>` replaces the JSON.
    """
    org = "global" if org_id is None else "%67lobal" if org_id == "global" else _part(org_id)
    head = f"{_part(job_type)}::{org}::"
    text = canonical_json(payload)
    fits = len(head.encode()) + len(text.encode()) <= LONGEST["key"]
    return head + (text if fits else f"sha256:{stable_hash(payload)}")


def subject_key(job_type: str, subject: str) -> str:
    """Make the key that allows a subject one job of a type: `<job_type>:subject:<subject>`."""
    return f"{_part(job_type)}:subject:{_part(subject)}"


def type_key(job_type: str, mode: str) -> str:
    """Make the key that all jobs of a type share within an org; `mode` is how their bursts are handled."""
    return f"{_part(job_type)}:{_part(mode)}"


def key_from_template(template: str, payload: Mapping[str, object]) -> str:
    """Fill the `{field}`s of a template from the top of the payload; spaces become underscores.

    Raises InvalidJob for a missing, null or empty field: all jobs that lack it would share one key.
    """
    template_fields(template)
    return _FIELD.sub(lambda match: _field(template, match[1], payload), template).replace(" ", "_")


def template_fields(template: str) -> list[str]:
    """Return the field names of a template; raise InvalidSetting for a stray brace or an invalid name."""
    bare = _FIELD.sub("", template)
    if "{" in bare or "}" in bare:
        raise InvalidSetting(f"key template {template!r} has a brace that does not stand around a field name")
    names: list[str] = _FIELD.findall(template)
    for name in names:
        if not name.isidentifier():
            raise InvalidSetting(f"key template {template!r}: {{{name}}} is not the plain name of a field")
    return names


def notification_key(
    org_id: str | None, recipient: str, template: str, payload: object, start: datetime
) -> str:
    """Make the key of a notification from its org, recipient, template, content and time bucket."""
    parts = (org_id, recipient, template, stable_hash(payload), _instant(start))
    return ":".join(["notification", *map(_part, parts)])


def bucketed_key(key: str, start: datetime) -> str:
    """Make the key `<key>:<start>`, which holds for one time bucket."""
    return f"{key}:{_part(_instant(start))}"


def bucket_start(at: datetime, length: timedelta) -> datetime:
    """Return the start of the time bucket that contains `at`; buckets are counted from 1970, in UTC."""
    return at - (at - _EPOCH) % length


def _field(template: str, name: str, payload: Mapping[str, object]) -> str:
    """Return the text of one template field."""
    value = payload.get(name)
    if value is None or value == "":
        raise InvalidJob(
            f"key template {template!r} needs the payload's field {name!r}, which is missing or empty"
        )
    if isinstance(value, str):
        return normalize("NFC", value)
    if isinstance(value, int | float | datetime | UUID):
        return canonical_json(value).strip('"')
    raise InvalidJob(f"key template {template!r}: field {name!r} is {kind_of(value)}; use text or a number")


def _part(text: str | None) -> str:
    """Escape one part of a key; an absent part is written as empty text, so empty text is refused."""
    if text == "":
        raise InvalidJob(
            "a part of an idempotency key is empty; give some text, or None for an absent org or project"
        )
    return (text or "").replace("%", "%25").replace(":", "%3A")


def _canonical(value: object, path: str, depth: int) -> object:
    """Return the canonical form of a value, ready for `json.dumps`."""
    if depth > _DEPTH:
        raise InvalidJob(
            f"the input of a key is nested deeper than {_DEPTH} levels, or in a cycle; use less of it"
        )
    canonical: object = None
    match value:
        case None | bool():
            canonical = value
        case str():
            canonical = _canonical_text(value, path)
        case int():
            canonical = int(value)
        case float() if math.isfinite(value):
            canonical = int(value) if value.is_integer() else float(value)
        case datetime() if value.tzinfo is not None:
            canonical = _instant(value)
        case UUID():
            canonical = str(value)
        case list() | tuple():
            canonical = [_canonical(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
        case dict():
            canonical = _canonical_object(value, path, depth)
        case _:
            raise InvalidJob(
                f"the input of a key at {path} is {_describe(value)}; use text, finite numbers, booleans, "
                "null, lists, objects, UUIDs or datetimes with a time zone"
            )
    return canonical


def _canonical_object(value: Mapping[object, object], path: str, depth: int) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, member in value.items():
        if not isinstance(key, str):
            raise InvalidJob(f"the input of a key at {path} has the key {key!r:.80}; use text for keys")
        name = _storable(normalize("NFC", key), path)
        if name in members:
            raise InvalidJob(
                f"the input of a key at {path} has two keys that are both {name!r:.80} in Unicode NFC"
            )
        members[name] = _canonical(member, f"{path}.{name:.40}", depth + 1)
    return members


def _canonical_text(text: str, path: str) -> str:
    if _TIMESTAMP.fullmatch(text):
        try:
            return _instant(datetime.fromisoformat(text.upper()))
        except (ValueError, OverflowError):
            pass  # Has the form of a time but is not in the calendar: it stays text.
    return _storable(normalize("NFC", text), path)


def _storable(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidJob(f"the input of a key at {path} has half a surrogate pair: {text!a:.80}") from None
    return text


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _describe(value: object) -> str:
    if isinstance(value, float):
        return repr(value)
    return "a datetime without a time zone" if isinstance(value, datetime) else f"a {type(value).__name__}"
