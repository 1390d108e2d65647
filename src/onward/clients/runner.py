"""How a part of a client has its operations run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from onward.operations.statement import Operation

__all__ = ["AsyncRun", "Run"]

T = TypeVar("T")


class Run(Protocol):
    """Run an operation, in the client's transaction or in one of its own."""

    def __call__(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Give what the operation returns."""
        ...


class AsyncRun(Protocol):
    """The same, awaited."""

    async def __call__(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Give what the operation returns."""
        ...
