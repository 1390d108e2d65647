"""The answer of an HTTP server, read from the error that an HTTP client raised for it.

Nothing is read from the network: the body is what the client has read already. An attribute that is odd or
raises never causes an error here; at worst no answer is found.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

LONGEST_WAIT = timedelta(hours=24)
"""The longest wait that a provider can ask for: a longer one is a mistake, or a wrong clock."""

SHORTEST_WAIT = timedelta(seconds=1)

_SECONDS = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?")
_LONGEST_HEADER = 100
_LONGEST_BODY = 65_536
_STATUSES = range(100, 600)


class HttpAnswer(NamedTuple):
    """The parts of a server's answer that classification uses."""

    status: int
    retry_after: str | None
    date: str | None
    body: str

    def wait(self, now: datetime | None) -> timedelta | None:
        """Return how long the server asked to wait; None if it did not ask, or not in a valid form."""
        return retry_after(self.retry_after, self.date, now)


def peek(thing: object, name: str) -> Any:
    """Return an attribute; None if it is missing or reading it raises anything."""
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001 - the handler's own properties may raise anything
        return None


def answer_of(error: BaseException) -> HttpAnswer | None:
    """Return the answer that an error carries, as a response or as its own status and headers, or None."""
    response = peek(error, "response")
    body = _body(peek(response, "_content")) or _body(peek(error, "body"))
    aiohttp = _is_aiohttp(error)
    if aiohttp and _made_up(error):
        return None
    for source in (response, error):
        headers = peek(source, "headers")
        code = _status(peek(source, "status_code"))
        status = code or _status(peek(source, "status"))
        # A `status` without headers may mean something else, such as the status of an order.
        telling = callable(peek(headers, "get")) or (code is not None and source is response)
        if status is not None and (telling or aiohttp):
            return HttpAnswer(status, _header(headers, "Retry-After"), _header(headers, "Date"), body)
    return None


def retry_after(text: str | None, date: str | None, now: datetime | None) -> timedelta | None:
    """Return a Retry-After, in seconds or as a date, as a wait from one second to one day; None if invalid.

    A date is compared with the server's own date, if it sent one: its clock and ours need not agree.
    """
    text = (text or "").strip()
    if _SECONDS.fullmatch(text):
        wait = timedelta(seconds=min(float(text), LONGEST_WAIT.total_seconds()))
    else:
        until, since = _moment(text), _moment(date or "") or now
        if until is None or since is None or until <= since:
            return None
        wait = until - since
    return min(max(wait, SHORTEST_WAIT), LONGEST_WAIT)


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
        # HTTP dates are in UTC, also those that name no zone.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _status(value: object) -> int | None:
    try:
        number = int(value) if isinstance(value, int | str) else 0
    except ValueError:
        return None
    return number if number in _STATUSES else None


def _header(headers: Any, name: str) -> str | None:
    for spelling in (name, name.lower()):
        try:
            value = headers.get(spelling)
        except BaseException:  # noqa: BLE001 - `headers` may be any object
            return None
        match value:
            case str():
                return value[:_LONGEST_HEADER]
            case bytes():
                return value[:_LONGEST_HEADER].decode("latin-1")
            case int() | float():
                return str(value)
    return None


def _body(content: object) -> str:
    match content:
        case bytes():
            return content[:_LONGEST_BODY].decode("utf-8", "replace")
        case str():
            return content[:_LONGEST_BODY]
    return ""


def _is_aiohttp(error: BaseException) -> bool:
    # aiohttp's error has a status even where it has no headers.
    return _is_named(error, "ClientResponseError")


def _made_up(error: BaseException) -> bool:
    """Whether aiohttp made the status up: it sets one also for a proxy's failure and an unreadable answer."""
    cause = peek(error, "__cause__")
    return _is_named(error, "ClientHttpProxyError") or _is_named(cause, "HttpProcessingError")


def _is_named(thing: object, name: str) -> bool:
    return any(
        kind.__name__ == name and str(kind.__module__).startswith("aiohttp.") for kind in type(thing).__mro__
    )
