"""What `ctx.once()` and `ctx.step()` do, written once for sync and async handlers.

An effect is a generator that does no I/O: it yields what to call next, and is sent the result.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from onward.clients.sync.work.worker_effects import WorkerEffects
from onward.clients.work.worker_effects import AsyncWorkerEffects
from onward.core.jobs.job import Job
from onward.core.work.effect import plain
from onward.core.work.lease import JobLease
from onward.errors import InvalidSetting, StorageFull, StoreBusy, StoreUnreachable
from onward.operations.work.effects import check_name

_SWITCH = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_PATIENCE = 10.0

_lock = threading.Lock()
_in_progress: set[tuple[str, int, str]] = set()


class Do(NamedTuple):
    """A call to make, and to await if its result is awaitable; an `uninterrupted` one runs to its end."""

    call: Callable[[], Any]
    uninterrupted: bool = False


Acts = Generator[Do, Any, Any]


@dataclass(frozen=True, slots=True)
class Acting:
    """The job that does an effect, where the effect is recorded, and where it is logged.

    `wait` waits for a number of seconds, and returns True if the handler should give way; `note` adds to the
    audit.
    """

    job: Job
    effects: WorkerEffects | AsyncWorkerEffects
    log: logging.LoggerAdapter[logging.Logger]
    wait: Callable[[float], Any]
    note: Callable[[JobLease, str, dict[str, Any]], Any]
    dry_run: bool = False

    def tell(self, event: str, name: str, message: str, *, level: int = logging.INFO) -> None:
        """Log what became of an effect, with fields by which a formatter can rename the event."""
        # Log through the adapter's logger: the adapter would replace these fields with its own.
        about = {**(self.log.extra or {}), "event": event, "effect": name}
        self.log.logger.log(level, "effect %r %s", name, message, extra=about)


def once(acting: Acting, name: str, function: Callable[..., Any]) -> Acts:
    """Do an effect unless it is done already; return its result, as it is stored."""
    _check_order("once", name)
    arguments = _arguments(function, name, most=1)
    check_name(name)
    if acting.dry_run:
        yield Do(lambda: acting.note(acting.job.held_lease, "effect.skipped_dry_run", {"effect": name}))
        acting.tell("effect.skipped", name, "skipped: this is a dry run")
        return None
    job, effects = acting.job, acting.effects
    with alone(job, name):
        begun = yield Do(lambda: effects.begin(job, name))
        if begun.state == "done":
            acting.tell("effect.skipped", name, f"skipped: it was done in attempt {begun.attempt}")
            return begun.result
        value = yield from _called(acting, name, function, (begun.key,)[:arguments])
        result = _storable(acting, name, value)
        try:
            yield from recorded(acting, lambda: effects.done(job, begun, result))
        except BaseException as error:
            why = f"was done, but not recorded ({type(error).__name__}); the next attempt will try it again"
            acting.tell("effect.unrecorded", name, why, level=logging.WARNING)
            raise
        acting.tell("effect.done", name, "done")
        return result


def step(acting: Acting, name: str, function: Callable[..., Any]) -> Acts:
    """Return the stored result of a step, or call the function and store its result."""
    _check_order("step", name)
    _arguments(function, name, most=0)
    check_name(name)
    job, effects = acting.job, acting.effects
    with alone(job, name):
        found = yield Do(lambda: effects.read(job.id, name))
        if found is not None and found.is_done_over(job.payload):
            return found.result
        value = yield from _called(acting, name, function, ())
        result = plain(value, f"the result of step {name!r:.80}")
        # Not stored in a dry run: the result depends on effects that were skipped, and a real run must not
        # reuse it.
        if not acting.dry_run:
            yield from recorded(acting, lambda: effects.remember(job, name, result, after=found))
        return result


def recorded(acting: Acting, record: Callable[[], Any]) -> Acts:
    """Record what has happened; while the database is unreachable, retry for `_PATIENCE` seconds.

    Recording twice does no harm. In the handler's own transaction the driver's errors pass through: a broken
    transaction can't be retried.
    """
    pause, until = _FIRST_PAUSE, 0.0
    while True:
        try:
            return (yield Do(record, uninterrupted=True))
        except (StoreUnreachable, StoreBusy, StorageFull):
            now = time.monotonic()
            until = until or now + _PATIENCE
            if now + pause > until or (yield Do(partial(acting.wait, pause))):
                raise
        pause = min(pause * 2, _LONGEST_PAUSE)


def perform(acts: Acts) -> Any:
    """Carry out an effect in a thread that may block."""
    try:
        do = next(acts)
        while True:
            try:
                value = do.call()
            except BaseException as error:  # noqa: BLE001 - it is thrown on, not swallowed
                do = acts.throw(error)
            else:
                do = acts.send(value)
    except StopIteration as ended:
        return ended.value


async def perform_async(acts: Acts) -> Any:
    """Carry out an effect on the event loop."""
    cut: asyncio.CancelledError | None = None
    try:
        do = next(acts)
        while True:
            try:
                value = do.call()
                if do.uninterrupted:
                    task, cut = await _uninterrupted(value)
                    if cut is not None and (task.cancelled() or task.exception() is not None):
                        # A handler that has to give way does not retry.
                        raise cut  # noqa: TRY301 - the generator handles it
                    value = task.result()
                elif inspect.isawaitable(value):
                    value = await value
            except BaseException as error:  # noqa: BLE001 - it is thrown on, not swallowed
                do = acts.throw(error)
            else:
                do = acts.send(value)
    except StopIteration as ended:
        if cut is None:
            return ended.value
        raise cut from None


async def _uninterrupted(
    value: Coroutine[Any, Any, Any],
) -> tuple[asyncio.Task[Any], asyncio.CancelledError | None]:
    """Run a coroutine to its end even if the handler is cancelled; return its task and the cancellation."""
    # The effect has happened. If it were not recorded, the next attempt would repeat it.
    task, cut, until = asyncio.ensure_future(value), None, 0.0
    while not task.done():
        try:
            # Bounded once the handler is cancelled: the database may never answer.
            await asyncio.wait({task}, timeout=until - time.monotonic() if cut else None)
        except asyncio.CancelledError as error:
            cut, until = error, until or time.monotonic() + _PATIENCE
        else:
            if not task.done():
                task.cancel()
    return task, cut


def _called(acting: Acting, name: str, function: Callable[..., Any], arguments: tuple[str, ...]) -> Acts:
    try:
        value = yield Do(lambda: function(*arguments))
        _check_ready(name, value)
    except BaseException as error:
        acting.tell("effect.failed", name, f"failed: {type(error).__name__}", level=logging.WARNING)
        raise
    return value


def _check_ready(name: str, value: object) -> None:
    """Raise InvalidSetting for a result that was never awaited: its work has not happened."""
    if inspect.isawaitable(value):
        if isinstance(value, Coroutine):
            value.close()
        raise InvalidSetting(
            f"effect {name!r:.80}: the function gives something to await; "
            "use await ctx.aonce(…) or await ctx.astep(…)"
        )


def _storable(acting: Acting, name: str, value: object) -> Any:
    """Return a result as it is stored; null if it can't be, because the effect has already happened."""
    try:
        return plain(value, "the result")
    except Exception as error:  # noqa: BLE001 - the result's own methods may raise anything
        acting.tell("effect.result_dropped", name, f"gives null: {error}", level=logging.WARNING)
        return None


@contextmanager
def alone(job: Job, name: str) -> Iterator[None]:
    """Raise InvalidSetting for a second call of a name while the first runs: only one could be recorded."""
    mark = (job.id, job.lease, name)
    with _lock:
        if mark in _in_progress:
            raise InvalidSetting(
                f"effect {name!r:.80} of job {job.id} is in progress already; give each effect its own name"
            )
        _in_progress.add(mark)
    try:
        yield
    finally:
        with _lock:
            _in_progress.discard(mark)


def _check_order(method: str, name: object) -> None:
    if callable(name):
        raise InvalidSetting(f"{name!r:.80} is no name; give a name first: ctx.{method}('mail', fn)")


def _arguments(function: Callable[..., Any], name: str, *, most: int) -> int:
    """Return how many arguments a function requires; parameters with a default are left to it."""
    if not callable(function):
        raise InvalidSetting(f"effect {name!r:.80}: {function!r:.80} can't be called; give a function")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some functions in C have no signature.
        return 0
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if len(needed) > most or any(parameter.kind == parameter.KEYWORD_ONLY for parameter in needed):
        takes = "one argument, the idempotency key, or none" if most else "no argument"
        raise InvalidSetting(
            f"effect {name!r:.80}: its function needs {', '.join(parameter.name for parameter in needed)}; "
            f"give one that takes {takes}"
        )
    return len(needed)


def is_dry_run() -> bool:
    """Whether ONWARD_DRY_RUN asks for a dry run; unset means no."""
    setting = os.environ.get("ONWARD_DRY_RUN", "").strip().lower()
    if not setting:
        return False
    if setting not in _SWITCH:
        raise InvalidSetting(f"ONWARD_DRY_RUN is {setting!r:.80}; give 1 or 0")
    return _SWITCH[setting]
