"""Set up logging for a command: each record is one line, whatever it contains."""

from __future__ import annotations

import logging
import sysconfig
import traceback
from datetime import datetime

from onward.core.inputs.plain_text import one_line as clean
from onward.logs import hide

LEVELS = ("debug", "info", "warning", "error")


class _OneLine(logging.Formatter):
    """Formats `18:04:02 warning onward.worker: …`; of a traceback only the end, at level debug all of it."""

    def format(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created).astimezone()
        text = f"{record.name}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f" ({self._described(error)})"
        elif record.exc_text:
            text += f" ({self._lines(record.exc_text)})"
        # The application's own loggers may log secrets and control characters too.
        return f"{now:%H:%M:%S} {record.levelname.lower()} {clean(hide(text))}"

    @staticmethod
    def _described(error: BaseException) -> str:
        if logging.getLogger().isEnabledFor(logging.DEBUG):
            return _OneLine._lines("".join(traceback.format_exception(error)))
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return f"{type(error).__name__}: {error}{where}"

    @staticmethod
    def _lines(text: str) -> str:
        lines = text.splitlines()
        return " ⏎ ".join(lines) if logging.getLogger().isEnabledFor(logging.DEBUG) else lines[-1]


class _Ours(logging.Filter):
    """Passes all records of Onward and the app, and warnings of installed libraries.

    Some libraries log every request at a lower level.
    """

    def __init__(self, app: str | None) -> None:
        super().__init__()
        self._names = {"onward", (app or "onward").partition(":")[0].partition(".")[0]}
        self._installed = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno >= logging.WARNING
            or record.name.partition(".")[0] in self._names
            or not record.pathname.startswith(self._installed)
        )


def set_up_logs(level: str, app: str | None = None) -> None:
    """Send logs to the standard error, unless the app has set up logging; level debug filters nothing."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    if level != "debug":
        handler.addFilter(_Ours(app))
    root.addHandler(handler)
    root.setLevel(level.upper())
