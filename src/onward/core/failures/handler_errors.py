"""What a handler raises to say itself what its error means; the outcomes are in the state machine's file."""

from __future__ import annotations

from onward.core.inputs.duration import Duration, duration


class Unrecoverable(Exception):
    """Trying again would not help: the job is dead at once; `hint` and `link` tell an operator what would."""

    def __init__(self, message: str = "", *, hint: str | None = None, link: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.link = link


class RuleBroken(Unrecoverable):
    """A rule of the business forbids it, such as a conflict or a step that this state does not allow."""


class Retry(Exception):
    """The attempt failed and counts; `after` replaces the back-off of its category."""

    def __init__(self, message: str = "", *, after: Duration | None = None) -> None:
        super().__init__(message or "the handler asked for another attempt")
        self.after = None if after is None else duration("after", after)
