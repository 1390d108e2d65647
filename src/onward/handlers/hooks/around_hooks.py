"""The functions that an application runs around each attempt of a job, by `@app.around`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import TypeVar

from onward.core.jobs.job import Job
from onward.core.work.lifecycle import Outcome
from onward.errors import InvalidSetting

AroundAttempt = (
    Callable[[Job], Generator[None, Outcome, None]] | Callable[[Job], AsyncGenerator[None, Outcome]]
)
"""A function that yields once: what precedes its yield runs before an attempt, the rest after it.

The yield returns the outcome of the attempt.
"""

A = TypeVar("A", bound=AroundAttempt)


class AroundHook:
    """A function around each attempt."""

    def __init__(self, function: AroundAttempt) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.is_async = inspect.isasyncgenfunction(function)
        if not self.is_async and not inspect.isgeneratorfunction(function):
            raise InvalidSetting(
                f"around() got {self.name:.80}, which does not yield; write `outcome = yield` where the "
                "attempt runs, in a def or an async def"
            )
        try:
            inspect.signature(function).bind(None)
        except TypeError:
            raise InvalidSetting(f"around() calls {self.name} with the job; give it one parameter") from None


class AroundHooks:
    """`@app.around`; a worker calls the decorated functions for each attempt, in their order."""

    def __init__(self) -> None:
        self._hooks: list[AroundHook] = []

    def __iter__(self) -> Iterator[AroundHook]:
        return iter(self._hooks)

    def __call__(self, function: A, /) -> A:
        """Register a function that yields once, around each attempt; the first registered is outermost."""
        self._hooks.append(AroundHook(function))
        return function
