"""The caller of Onward: the connection in its hands, and a transaction of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import isasyncgenfunction
from pathlib import Path
from typing import Any, TypeVar

from onward.connections import AsyncConnection, Connection, adapt, adapt_async, run, run_async
from onward.core.jobs.job import micros
from onward.operations.statement import Operation, with_params
from onward.sql.catalogue import Database

__all__ = ["NOW", "PREFIX", "Address", "Caller", "Held", "Kind", "bound", "open_caller", "registering"]

T = TypeVar("T")

PREFIX: dict[Database, str] = {"sqlite": "onward_", "postgres": "onward."}


@dataclass(frozen=True)
class Address:
    """Where the two databases are."""

    path: Path
    url: str

    def sqlalchemy(self, driver: str) -> str:
        return (
            f"sqlite+{driver}:///{self.path}"
            if "sqlite" in driver
            else self.url.replace("postgresql", f"postgresql+{driver}")
        )


def nothing() -> None:
    """Begin a transaction where the driver does so by itself."""


@dataclass
class Held:
    """A connection in the caller's hands, with what only the caller may do to it."""

    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    begin: Callable[[], Any] = nothing


@dataclass(frozen=True)
class Kind:
    """A way to open one kind of connection to one of the databases."""

    name: str
    database: Database
    open: Callable[[Address], Any]
    is_async: bool


Opener = Callable[..., Any]


def registering(kinds: list[Kind]) -> Callable[[str, Database], Callable[[Opener], Opener]]:
    """Give a decorator for openers: generators that yield what is held and close it after."""

    def kind(name: str, database: Database) -> Callable[[Opener], Opener]:
        def register(opener: Opener) -> Opener:
            kinds.append(Kind(name, database, opener, isasyncgenfunction(opener)))
            return opener

        return register

    return kind


NOW = datetime.now(UTC).replace(microsecond=123_456)
WHO = {"actor_type": "user", "actor_id": "é"}


def bound(operation: Operation[T], at: datetime | None = NOW) -> Operation[T]:
    """An operation by a user and at a time that tests know; None is the database's clock."""
    return with_params(operation, {}, {"now": None if at is None else micros(at), **WHO})


@dataclass
class Caller:
    """The caller of Onward, at work in a transaction of its own."""

    kind: Kind
    held: Held
    await_: Callable[[Any], Any]
    adapted: Any = field(init=False, default=None)

    def begin(self) -> None:
        self._do(self.held.begin)
        self.adapted = self.join()

    def join(self) -> Connection | AsyncConnection:
        """Give what `within()` works on."""
        join = adapt_async if self.kind.is_async else adapt
        return join(self.held.connection, self.kind.database, PREFIX[self.kind.database])

    def go(self, operation: Operation[T], at: datetime | None = NOW) -> T:
        """Run one operation inside the caller's transaction, by a user and at a time that tests know."""
        operation = bound(operation, at)
        if self.kind.is_async:
            result: T = self.await_(run_async(operation, self.adapted))
            return result
        return run(operation, self.adapted)

    def commit(self) -> None:
        self._do(self.held.commit)

    def rollback(self) -> None:
        self._do(self.held.rollback)

    def _do(self, action: Callable[[], Any]) -> None:
        result = action()
        if asyncio.iscoroutine(result):
            self.await_(result)


@contextmanager
def open_caller(kind: Kind, address: Address) -> Iterator[Caller]:
    """Open a caller's connection and close it; an async one gets a loop of its own."""
    if not kind.is_async:
        with contextmanager(kind.open)(address) as held:
            yield Caller(kind, held, lambda value: value)
        return
    with asyncio.Runner() as runner:
        manager = asynccontextmanager(kind.open)(address)
        held = runner.run(manager.__aenter__())
        try:
            yield Caller(kind, held, runner.run)
        finally:
            runner.run(manager.__aexit__(None, None, None))
