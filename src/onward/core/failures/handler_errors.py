"""Exceptions that a handler raises to state how its failure is classified."""

from __future__ import annotations

from onward.core.inputs.duration import Duration, duration


class Unrecoverable(Exception):
    """No retry would help: the job is dead at once; `hint` and `link` tell an operator what would help."""

    def __init__(self, message: str = "", *, hint: str | None = None, link: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.link = link


class RuleBroken(Unrecoverable):
    """A business rule forbids it, such as a conflict, or a step that the current state does not allow."""


class ArtifactMissing(Unrecoverable):
    """The job has left no artifact, and its category requires one."""


class Retry(Exception):
    """The attempt failed and counts; `after` replaces the back-off of the job's category."""

    def __init__(self, message: str = "", *, after: Duration | None = None) -> None:
        super().__init__(message or "the handler asked for another attempt")
        self.after = None if after is None else duration("after", after)
