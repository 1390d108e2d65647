"""Set up logging for a command: a record is one line, whatever it contains; tracebacks follow it indented."""

from __future__ import annotations

import logging
import sysconfig
import traceback
from datetime import datetime
from pathlib import Path

from onward.cli.views.text import clean_lines, short
from onward.core.failures.classify import format_error
from onward.core.inputs.plain_text import one_line as clean
from onward.logs import hide
from onward.origin import running_job

LEVELS = ("debug", "info", "warning", "error")

_LONGEST = 500
_MARKS = {"failed": "✗", "rate_limited": "✗", "released": "✗", "dead": "☠"}
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})
_NOT_THE_APP = (*_INSTALLED, str(Path(__file__).parents[1]))


class _Readable(logging.Formatter):
    """Formats `18:04:02 warning onward.worker: …`, or `18:04:02 ✗ send 019a8c…a07 …` for a failed attempt.

    A line within a job names its type and id. An error is followed by its traceback, a lesser record only by
    the place in the code, unless `tracebacks` or level debug asks for more.
    """

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created).astimezone()
        mark = _MARKS.get(getattr(record, "outcome", "")) if record.name == "onward.job" else None
        head = mark or f"{record.levelname.lower()} {record.name}:"
        text, trace = _message(record), ""
        if record.exc_text or record.exc_info:
            if self._tracebacks or record.levelno >= logging.ERROR or _is_debugging():
                trace = f"\n{clean_lines(hide(_trace(record)), '    ')}"
            else:
                text += _short_trace(record, named=mark is not None)
        # The application's own loggers may log secrets and control characters too.
        return f"{now:%H:%M:%S} {head} {clean(hide(text))}{trace}"


def _message(record: logging.LogRecord) -> str:
    """Return the message, with the type and the id of the job that it is about."""
    text = record.getMessage()
    job_type, job_id = getattr(record, "job_type", None), getattr(record, "job_id", None)
    if job_id is None and not record.name.startswith("onward") and (job := running_job()) is not None:
        job_type, job_id = job.job_type, job.id
    if not isinstance(job_id, str):
        return text
    return text.replace(job_id, short(job_id)) if job_id in text else f"{job_type} {short(job_id)}: {text}"


def _trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return record.exc_text or ("" if error is None else format_error(error))


def _short_trace(record: logging.LogRecord, *, named: bool) -> str:
    """Return the error in brackets, or only its place if the message has `named` the error."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return "" if named else f" ({(record.exc_text or '').splitlines()[-1]:.{_LONGEST}})"
    place = _place(error)
    parts = ["" if named else f"{type(error).__name__}: {error}"[:_LONGEST], place]
    return f" ({' at '.join(part for part in parts if part)})" if any(parts) else ""


def _place(error: BaseException) -> str:
    """Return the innermost file and line that is no installed library's, else the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_APP)] or frames
    if not own:
        return ""
    path, here = Path(own[-1].filename), Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{own[-1].lineno}"


def _is_debugging() -> bool:
    return logging.getLogger().isEnabledFor(logging.DEBUG)


class _Ours(logging.Filter):
    """Passes all records of Onward and the app, and warnings of installed libraries.

    Some libraries log every request at a lower level.
    """

    def __init__(self, app: str | None) -> None:
        super().__init__()
        self._names = {"onward", (app or "onward").partition(":")[0].partition(".")[0]}

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno >= logging.WARNING
            or record.name.partition(".")[0] in self._names
            or not record.pathname.startswith(_INSTALLED)
        )


def set_up_logs(level: str, app: str | None = None, *, tracebacks: bool = False) -> None:
    """Send logs to the standard error, unless the app has set up logging; level debug filters nothing.

    With `tracebacks`, a warning is followed by its traceback too, not only an error.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Readable(tracebacks=tracebacks))
    if level != "debug":
        handler.addFilter(_Ours(app))
    root.addHandler(handler)
    root.setLevel(level.upper())
