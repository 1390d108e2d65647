"""What an attempt came to, judged by what its handler returned or raised."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from onward.core.duration import Duration, duration
from onward.core.lifecycle import Cancelled, Failed, Outcome, RateLimited, Skip, Snooze, Succeeded

__all__ = ["Retry", "Unrecoverable", "classify", "describe"]

_LONGEST_MESSAGE = 10_000
_LONGEST_TRACEBACK = 20_000


class Unrecoverable(Exception):
    """Trying again would not help: the job is dead at once; `hint` and `link` tell an operator what would."""

    def __init__(self, message: str = "", *, hint: str | None = None, link: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.link = link


class Retry(Exception):
    """The attempt failed and counts; `after` replaces the back-off of its category."""

    def __init__(self, message: str = "", *, after: Duration | None = None) -> None:
        super().__init__(message or "the handler asked for another attempt")
        self.after = None if after is None else duration("after", after)


def classify(end: object) -> Outcome:
    """Give the outcome of an attempt for what its handler returned or raised."""
    match end:
        case Skip() | Snooze() | RateLimited() | Cancelled():
            return end
        case Unrecoverable(hint=hint, link=link):
            about = {name: value for name, value in (("hint", hint), ("link", link)) if value is not None}
            return Failed({**describe(end), **about}, retryable=False)
        case Retry(after=after):
            return Failed(describe(end), after=after)
        case BaseException():
            return Failed(describe(end))
    return Succeeded(end)


def describe(error: BaseException) -> Mapping[str, Any]:
    """Give what is stored about an exception: its class, message and where it came from; never fails."""
    if isinstance(told := getattr(error, "described", None), Mapping):
        # It was raised in another process, which has described it.
        return told
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the handler's own __str__ may be broken
        message = "(its message could not be read)"
    described = {"class": type(error).__name__, "message": message[:_LONGEST_MESSAGE]}
    if error.__traceback__ is not None:
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        # The end of a traceback says most.
        described["traceback"] = lines[-_LONGEST_TRACEBACK:]
    return described
