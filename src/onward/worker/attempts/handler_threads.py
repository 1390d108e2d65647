"""Threads that a handler starts, and calls that it hands to a thread pool, run as part of its job.

Python gives neither the context variables of the code that starts them. They keep the job for good, as tasks
do. Not covered is a thread that runs already and is handed a function in another way, such as by a queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import Any

from onward.core.jobs.job import Job
from onward.origin import AMBIENT, Origin

_installing = threading.Lock()
_MARK = "_onward_follows_handlers"


def follow_handlers() -> None:
    """Wrap `Thread.start` and `ThreadPoolExecutor.submit` once; they change nothing outside of a handler."""
    with _installing:
        if hasattr(threading.Thread.start, _MARK):
            return
        start, submit = _following_start(threading.Thread.start), _following_submit(ThreadPoolExecutor.submit)
        setattr(start, _MARK, True)
        threading.Thread.start = start  # type: ignore[assignment, method-assign]
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


def _following_start(plain: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(plain)
    def start(thread: threading.Thread) -> None:
        origin = _of_handler()
        if origin is None:
            return plain(thread)
        run = thread.run

        def run_within() -> None:
            # Else the thread would refer to itself, and be freed late.
            del thread.run
            AMBIENT.set(origin)
            run()

        thread.run = run_within  # type: ignore[method-assign]
        return plain(thread)

    return start


def _following_submit(plain: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(plain)
    def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        origin = _of_handler()
        if origin is None:
            return plain(pool, function, *args, **kwargs)
        # The pool may start a thread here, which later serves others: only the call belongs to the job.
        token = AMBIENT.set(None)
        try:
            return plain(pool, _within, origin, function, *args, **kwargs)
        finally:
            AMBIENT.reset(token)

    return submit


def _within(origin: Origin | Job, function: Any, *args: Any, **kwargs: Any) -> Any:
    token = AMBIENT.set(origin)
    try:
        return function(*args, **kwargs)
    finally:
        AMBIENT.reset(token)


def _of_handler() -> Origin | Job | None:
    """Return the origin of the running code if that is a handler's, else None."""
    origin = AMBIENT.get()
    return origin if isinstance(origin, Job) or (origin is not None and origin.job is not None) else None
