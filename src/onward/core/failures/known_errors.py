"""The built-in classification rules, in order; each takes one error and returns a verdict or None.

Classes of clients and drivers are recognised by name: `package.Class`, wherever in the package it is defined.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from onward.core.failures.causes import Seen
from onward.core.failures.handler_errors import ArtifactMissing, Retry, RuleBroken, Unrecoverable
from onward.core.failures.http_response import answer_of, peek
from onward.core.failures.verdict import Kind, Verdict
from onward.core.inputs.duration import duration
from onward.core.work.lifecycle import RateLimited
from onward.core.work.retry import LONGEST_DELAY
from onward.errors import InvalidJob, InvalidSetting, NotAllowed, WaitTimedOut

Rule = Callable[[Seen, datetime | None], Verdict | None]

RULE_NAMES = frozenset(
    {
        "raised_unrecoverable", "raised_rate_limited", "raised_retry", "business_rule", "invalid_job",
        "validation", "not_allowed", "missing_scopes", "ratelimit_exceeded", "http_401", "http_403",
        "http_408", "http_425", "http_429", "http_5xx", "http_refused", "http_4xx", "http_other", "timeout",
        "connection", "database_conflict", "database_locked", "database_lost", "database_full",
        "wait_timed_out", "artifact_missing", "unclassified",
    }
)  # fmt: skip
"""The names of the built-in rules; an application's rules must have other names."""

_MISSING_SCOPES = re.compile(r"\bMISSING_SCOPES?\b")
_RATE_LIMIT = re.compile(r"\bRATE_?LIMIT_EXCEEDED\b")

_VALIDATION = frozenset(
    {
        "msgspec.ValidationError", "pydantic.ValidationError", "pydantic_core.ValidationError",
        "django.ValidationError",
    }
)  # fmt: skip

_HTTP: dict[int, tuple[str, Kind]] = {
    401: ("http_401", "unrecoverable"),
    403: ("http_403", "unrecoverable"),
    408: ("http_408", "retry"),
    425: ("http_425", "retry"),
    429: ("http_429", "rate_limited"),
    **dict.fromkeys((400, 405, 406, 410, 411, 413, 414, 415, 422), ("http_refused", "unrecoverable")),
}
_HTTP_CLASS: dict[int, tuple[str, Kind]] = {
    3: ("http_other", "retry"),
    4: ("http_4xx", "retry"),
    5: ("http_5xx", "retry"),
}

_TIMEOUT = frozenset(
    {
        "builtins.TimeoutError", "httpx.TimeoutException", "httpx2.TimeoutException", "requests.Timeout",
        "urllib3.TimeoutError",
    }
)  # fmt: skip
_CONNECTION = frozenset(
    {
        "builtins.ConnectionError", "socket.gaierror", "socket.herror", "ssl.SSLError", "http.HTTPException",
        "httpx.NetworkError", "httpx.ProtocolError", "httpx.ProxyError",
        "httpx2.NetworkError", "httpx2.ProtocolError", "httpx2.ProxyError",
        "requests.ConnectionError", "requests.ChunkedEncodingError",
        "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError", "aiohttp.ClientHttpProxyError",
        "aiohttp.HttpProcessingError",
        "urllib.URLError", "urllib.ContentTooShortError", "urllib3.HTTPError",
    }
)  # fmt: skip

# Python has no exception classes for these.
_UNREACHABLE = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL)

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_BY_SQLSTATE = {
    "08": "database_lost",
    "40": "database_conflict",
    "53": "database_full",
    "57P0": "database_lost",
    "55P03": "database_locked",
}
# An error without a sqlstate did not come from a server: there was no connection, or it broke.
_NO_SERVER = frozenset(
    {
        "psycopg.OperationalError", "psycopg.InterfaceError", "psycopg2.OperationalError",
        "psycopg2.InterfaceError", "asyncpg.InterfaceError", "sqlalchemy.TimeoutError",
    }
)  # fmt: skip
_OURS = {
    "onward.StoreUnreachable": "database_lost",
    "onward.StoreBusy": "database_locked",
    "onward.StorageFull": "database_full",
}
_SQLITE_LOCKED = re.compile(r"database (?:\w+ )?is locked|database schema is locked")
_SQLITE_FULL = re.compile(r"database or disk is full")


def raised(seen: Seen, _now: datetime | None) -> Verdict | None:
    """Return the verdict that a handler states by raising Unrecoverable, Retry or RateLimited, or None."""
    error = seen.error
    match error:
        case ArtifactMissing():
            return Verdict("artifact_missing", "unrecoverable", reason="artifact_missing")
        case Unrecoverable(hint=hint, link=link):
            rule = "business_rule" if isinstance(error, RuleBroken) else "raised_unrecoverable"
            return Verdict(rule, "unrecoverable", hint=_text(hint), link=_text(link))
        case Retry(after=after):
            return Verdict("raised_retry", "retry", _span(after))
        case RateLimited(after, cause, counted):
            answer = answer_of(cause) if isinstance(cause, BaseException) else None
            status = None if answer is None else answer.status
            known = counted if isinstance(counted, bool) else None
            return Verdict("raised_rate_limited", "rate_limited", _span(after), status, counted=known)
    return None


def _span(after: object) -> timedelta | None:
    try:
        return None if after is None else min(duration("after", after), LONGEST_DELAY)
    except InvalidSetting:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None if value is None else f"{value!r:.200}"


def _validation(seen: Seen, _now: datetime | None) -> Verdict | None:
    if isinstance(seen.error, InvalidJob):
        # Our own checks would refuse the same job again.
        return Verdict("invalid_job", "unrecoverable", reason="invalid_job")
    return Verdict("validation", "unrecoverable") if seen.names & _VALIDATION else None


def _ownership(seen: Seen, _now: datetime | None) -> Verdict | None:
    if isinstance(seen.error, NotAllowed):
        return Verdict("not_allowed", "unrecoverable", reason="not_allowed")
    # A PermissionError with an errno comes from the operating system; file permissions may be corrected.
    own = isinstance(seen.error, PermissionError) and peek(seen.error, "errno") is None
    return Verdict("not_allowed", "unrecoverable") if own or "django.PermissionDenied" in seen.names else None


def _by_pattern(seen: Seen, now: datetime | None) -> Verdict | None:
    if _MISSING_SCOPES.search(seen.text):
        return Verdict("missing_scopes", "unrecoverable", status=seen.status)
    if _RATE_LIMIT.search(seen.text):
        wait = None if seen.answer is None else seen.answer.wait(now)
        rule = "http_429" if seen.status == 429 else "ratelimit_exceeded"  # noqa: PLR2004 - HTTP's own
        return Verdict(rule, "rate_limited", wait, seen.status)
    return None


def _http(seen: Seen, now: datetime | None) -> Verdict | None:
    if seen.answer is None:
        return None
    status = seen.answer.status
    known = _HTTP.get(status) or _HTTP_CLASS.get(status // 100)
    if known is None:
        return None
    rule, kind = known
    return Verdict(rule, kind, None if kind == "unrecoverable" else seen.answer.wait(now), status)


def _timeout(seen: Seen, _now: datetime | None) -> Verdict | None:
    if isinstance(seen.error, WaitTimedOut):
        # The time-out is stored with the job: another attempt would find it again.
        return Verdict("wait_timed_out", "unrecoverable", reason="wait_timed_out")
    # urllib3 derives NewConnectionError, a refused connection, from its time-out class.
    late = seen.names & _TIMEOUT and "urllib3.NewConnectionError" not in seen.names
    return Verdict("timeout", "retry") if late else None


def _connection(seen: Seen, _now: datetime | None) -> Verdict | None:
    unreachable = isinstance(seen.error, OSError) and peek(seen.error, "errno") in _UNREACHABLE
    # An error that carries an HTTP answer is no lost connection.
    lost = bool(seen.names & _CONNECTION) and seen.answer is None
    return Verdict("connection", "retry") if unreachable or lost else None


def _database(seen: Seen, _now: datetime | None) -> Verdict | None:
    rule = _database_rule(seen)
    return None if rule is None else Verdict(rule, "retry")


def _database_rule(seen: Seen) -> str | None:
    for name, rule in _OURS.items():
        if name in seen.names:
            return rule
    sqlstate = peek(seen.error, "sqlstate") or peek(seen.error, "pgcode")
    if isinstance(sqlstate, str) and _SQLSTATE.fullmatch(sqlstate):
        return next((rule for start, rule in _BY_SQLSTATE.items() if sqlstate.startswith(start)), None)
    if "sqlite3.OperationalError" in seen.names:
        if _SQLITE_LOCKED.search(seen.message):
            return "database_locked"
        return "database_full" if _SQLITE_FULL.search(seen.message) else None
    return "database_lost" if seen.names & _NO_SERVER else None


BUILT_IN: tuple[Rule, ...] = (_validation, _ownership, _by_pattern, _http, _database, _timeout, _connection)
