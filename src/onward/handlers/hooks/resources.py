"""Resources: what the handlers of one worker share, such as a pool of connections."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar, cast, overload

from onward.errors import InvalidSetting

T = TypeVar("T")


class Resource(Generic[T]):
    """A function that opens something; a handler takes it by a parameter whose default is `.injected`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.name: str = getattr(function, "__qualname__", repr(function))
        self.is_async = inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)
        self.yields = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        if not inspect.isfunction(function):
            raise InvalidSetting(f"resource() got {self.name:.80}; put it above a def or an async def")
        try:
            inspect.signature(function).bind()
        except TypeError:
            raise InvalidSetting(
                f"resource() calls {self.name} without arguments, and it has parameters; give them defaults"
            ) from None

    @property
    def injected(self) -> T:
        """The default of a handler's parameter that a worker replaces by what the function opened."""
        return cast("T", self)

    def __repr__(self) -> str:
        return f"{self.name}.injected"

    def __getattr__(self, name: str) -> Any:
        """Raise: a handler that is called directly must be passed the resource."""
        raise AttributeError(
            f"resource {self.name} is opened by a worker only, so it has no {name!r} here; pass it yourself "
            "when you call a handler directly"
        )


class ResourceDecorator:
    """`@app.resource`."""

    @overload
    def __call__(self, function: Callable[[], AsyncGenerator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, function: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, function: Callable[[], Generator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, function: Callable[[], Iterator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, function: Callable[[], Coroutine[Any, Any, T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, function: Callable[[], T], /) -> Resource[T]: ...
    def __call__(self, function: Callable[[], Any], /) -> Any:
        """Define a resource by a function that returns it, or yields it once and closes it after the yield.

        Each worker opens it when a handler first needs it, and closes it when the worker stops.
        """
        return Resource(function)


def check_usable(job_type: str, executor: str, resources: list[Resource[Any]]) -> None:
    """Raise InvalidSetting for a resource that a handler with this executor can't use."""
    if resources and executor == "process":
        raise InvalidSetting(
            f"job type {job_type!r}: resource {resources[0].name} is not in its process, which may be ended "
            "at any time; open it in the function, or use another executor"
        )
    for one in resources:
        if one.is_async and executor != "async":
            raise InvalidSetting(
                f"job type {job_type!r}: resource {one.name} belongs to the worker's event loop; make the "
                "handler an async def, or the resource a def"
            )
