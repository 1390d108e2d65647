"""Threads that confined code starts, and calls that it hands to a thread pool, are confined as it is.

Such code is a handler, or runs in a context of an org or a project. Python gives neither threads nor calls
the context variables of the code that starts them. They keep its origin for good, as tasks do. Not covered is
a thread that runs already and is handed a function in another way, such as by a queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import Any

from onward.core.jobs.job import Job
from onward.core.policy.policies import Policies
from onward.origin import AMBIENT, APPLICATION, Origin

_installing = threading.Lock()
_MARK = "_onward_follows_origins"


def follow_origins() -> None:
    """Wrap `Thread.start` and `ThreadPoolExecutor.submit` once; they change nothing for other code."""
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
        origin = _confining()
        if origin is None:
            return plain(thread)
        run, application = thread.run, APPLICATION.get()

        def run_within() -> None:
            # Else the thread would refer to itself, and be freed late.
            del thread.run
            AMBIENT.set(origin)
            APPLICATION.set(application)
            run()

        thread.run = run_within  # type: ignore[method-assign]
        return plain(thread)

    return start


def _following_submit(plain: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(plain)
    def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        origin = _confining()
        if origin is None:
            return plain(pool, function, *args, **kwargs)
        # The pool may start a thread here, which later serves others: only the call has the origin.
        token = AMBIENT.set(None)
        try:
            return plain(pool, _within, origin, APPLICATION.get(), function, *args, **kwargs)
        finally:
            AMBIENT.reset(token)

    return submit


def _within(
    origin: Origin | Job, application: Policies | None, function: Any, /, *args: Any, **kwargs: Any
) -> Any:
    tokens = AMBIENT.set(origin), APPLICATION.set(application)
    try:
        return function(*args, **kwargs)
    finally:
        AMBIENT.reset(tokens[0])
        APPLICATION.reset(tokens[1])


def _confining() -> Origin | Job | None:
    """Return the origin of the running code if it confines that code, else None."""
    origin = AMBIENT.get()
    if (
        isinstance(origin, Origin)
        and origin.job is None
        and origin.org_id is None
        and origin.project_id is None
    ):
        return None
    return origin
