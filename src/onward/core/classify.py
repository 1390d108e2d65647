"""What an attempt came to, judged by what its handler returned or raised."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from onward.core.duration import Duration, duration
from onward.core.error_context import LONGEST_MESSAGE, LONGEST_TRACEBACK, message_of, shorten
from onward.core.lifecycle import Cancelled, Failed, Outcome, RateLimited, Skip, Snooze, Succeeded
from onward.core.redaction import Hide, redact_text
from onward.errors import InvalidJob, NotAllowed

__all__ = ["Retry", "Unrecoverable", "classify", "describe"]


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


def classify(end: object, hide: Hide = redact_text) -> Outcome:
    """Give the outcome of an attempt for what its handler returned or raised."""
    match end:
        case Skip() | Snooze() | RateLimited() | Cancelled():
            return end
        case Unrecoverable(hint=hint, link=link):
            about = {
                name: shorten(str(value), LONGEST_MESSAGE, hide)
                for name, value in (("hint", hint), ("link", link))
                if value is not None
            }
            return Failed({**describe(end, hide), **about}, retryable=False)
        case InvalidJob() | NotAllowed():
            # What our own checks refused once, they refuse again.
            reason = "not_allowed" if isinstance(end, NotAllowed) else "invalid_job"
            return Failed({**describe(end, hide), "reason": reason}, retryable=False)
        case Retry(after=after):
            return Failed(describe(end, hide), after=after)
        case BaseException():
            return Failed(describe(end, hide))
    return Succeeded(end)


def describe(error: BaseException, hide: Hide = redact_text) -> Mapping[str, Any]:
    """Give what is stored about an exception: its class, message and where it came from; never fails."""
    if isinstance(told := getattr(error, "described", None), Mapping):
        # It was raised in another process, which has described it.
        return told
    message = shorten(message_of(error), LONGEST_MESSAGE, hide)
    described = {"class": type(error).__name__, "message": message}
    if error.__traceback__ is not None:
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        # The end of a traceback says most.
        described["traceback"] = shorten(lines, LONGEST_TRACEBACK, hide, end=True)
    return described
