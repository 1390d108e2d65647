"""The functions that an application runs when a worker starts and stops: `@app.on_start`, `@app.on_stop`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar, overload

from onward.core.inputs.checks import span
from onward.core.inputs.duration import Duration, duration
from onward.errors import InvalidSetting

H = TypeVar("H", bound=Callable[[], object])


class WorkerHook:
    """A function without parameters that a worker calls; `event` is the decorator that registered it."""

    def __init__(self, event: str, function: Callable[[], Any]) -> None:
        if not callable(function):
            raise InvalidSetting(f"{event}() got {function!r:.80}; put it above a def or an async def")
        self.event = event
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        try:
            inspect.signature(function).bind()
        except TypeError:
            raise InvalidSetting(
                f"{event}() calls {self.name} without arguments, and it has parameters; give them defaults"
            ) from None

    @property
    def is_async(self) -> bool:
        """Whether the function must be awaited."""
        return inspect.iscoroutinefunction(self.function)


class StartHook(WorkerHook):
    """A function that is called once in each worker process, `delay` after the worker has started."""

    def __init__(self, function: Callable[[], Any], delay: Duration = timedelta()) -> None:
        super().__init__("on_start", function)
        self.delay = span("delay", duration("delay", delay))
        self._process: int | None = None

    def begin(self) -> bool:
        """Claim the one call in this process; False if it was already made."""
        first = self._process != os.getpid()
        self._process = os.getpid()
        return first


class StartHooks:
    """`@app.on_start` and `@app.on_start(delay=…)`; a worker calls the decorated functions."""

    def __init__(self) -> None:
        self._hooks: list[StartHook] = []

    def __iter__(self) -> Iterator[StartHook]:
        return iter(self._hooks)

    @overload
    def __call__(self, function: H, /) -> H: ...
    @overload
    def __call__(self, /, *, delay: Duration = ...) -> Callable[[H], H]: ...
    def __call__(self, function: Any = None, /, *, delay: Duration = timedelta()) -> Any:
        """Register a function to be called once in each worker process, `delay` after its start.

        An error that it raises is logged, and the worker goes on.
        """

        def add(hook: H) -> H:
            self._hooks.append(StartHook(hook, delay))
            return hook

        return add if function is None else add(function)


class StopHooks:
    """`@app.on_stop`; a worker calls the decorated functions, the last registered first."""

    def __init__(self) -> None:
        self._hooks: list[WorkerHook] = []

    def __iter__(self) -> Iterator[WorkerHook]:
        return reversed(self._hooks)

    def __call__(self, function: H, /) -> H:
        """Register a function to be called when a worker stops: after its jobs, before its resources close.

        An error that it raises is logged, and the worker goes on stopping.
        """
        self._hooks.append(WorkerHook("on_stop", function))
        return function
