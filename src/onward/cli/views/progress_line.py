"""A line on the terminal that shows the progress of a job, and is overwritten as the job advances."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from onward.core.inputs.plain_text import one_line

if TYPE_CHECKING:
    from onward.core.work.progress import Progress

_CLEARED = "\r\x1b[2K"
_USUAL_WIDTH = 80


class ProgressLine:
    """The last line of the standard error; prints nothing if that is not a terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, progress: Progress | None) -> None:
        """Replace the line, if it has changed."""
        text = "" if progress is None else one_line(progress_text(progress), _width())
        if self._is_terminal and text != self._shown:
            self._shown = text
            # The reader of the standard error may be gone; that must not stop the wait.
            with suppress(OSError):
                click.echo(f"{_CLEARED}{text}", nl=False, err=True)

    def close(self) -> None:
        """Remove the line."""
        self.show(None)


def progress_text(progress: Progress) -> str:
    """Return how far a job is in words: `30 of 120 (25 %)  page 4`."""
    text = f"{_number(progress.done)} done"
    if progress.total is not None and progress.fraction is not None:
        percent = int(progress.fraction * 100)
        text = f"{_number(progress.done)} of {_number(progress.total)} ({percent} %)"
    return text if progress.note is None else f"{text}  {progress.note}"


def _number(amount: float) -> str:
    return str(amount) if isinstance(amount, int) else f"{amount:.10g}"


def _width() -> int:
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    # One column less: a full line may move the cursor to the next.
    return (columns or _USUAL_WIDTH) - 1
