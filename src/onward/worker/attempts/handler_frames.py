"""Shortens tracebacks of handlers: without the frames of the worker that called the handler."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from onward.core.failures.http_response import peek

_WORKER = str(Path(__file__).parents[1])


def without_worker_frames(error: BaseException) -> BaseException:
    """Return the error without the worker's frames above the handler, unless there are no others."""
    inner = peek(error, "__traceback__")
    while isinstance(inner, TracebackType) and inner.tb_frame.f_code.co_filename.startswith(_WORKER):
        inner = inner.tb_next
    return BaseException.with_traceback(error, inner) if isinstance(inner, TracebackType) else error
