"""Run operations on anything that can fetch a statement: the only place where sync and async differ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from onward.operations.statement import Operation, Row, Several, Statement
from onward.sql.catalogue import Database

__all__ = ["AsyncConnection", "Begun", "Connection", "one_by_one", "one_by_one_async", "run", "run_async"]

T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT", bound="Fetching")
AsyncConnectionT = TypeVar("AsyncConnectionT", bound="AsyncFetching")
RunSeveral = Callable[[ConnectionT, Iterator[Statement]], Sequence[Row]]
RunSeveralAsync = Callable[[AsyncConnectionT, Iterator[Statement]], Awaitable[Sequence[Row]]]


class Fetching(Protocol):
    """Whatever runs named statements."""

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give all of its rows."""
        ...


class AsyncFetching(Protocol):
    """The same, awaited."""

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give all of its rows."""
        ...


class Connection(Fetching, Protocol):
    """A database connection, ours or the caller's."""

    @property
    def database(self) -> Database:
        """Tell the kind of database behind it."""
        ...

    @property
    def prefix(self) -> str:
        """Tell what the names of Onward's tables begin with."""
        ...

    @property
    def identity(self) -> Hashable | None:
        """Tell which database this is; None if that can't be known without asking it."""
        ...

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        ...


class AsyncConnection(AsyncFetching, Protocol):
    """The same, awaited."""

    @property
    def database(self) -> Database:
        """Tell the kind of database behind it."""
        ...

    @property
    def prefix(self) -> str:
        """Tell what the names of Onward's tables begin with."""
        ...

    @property
    def identity(self) -> Hashable | None:
        """Tell which database this is; None if that can't be known without asking it."""
        ...

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        ...


def one_by_one(connection: Fetching, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements, all made before the first, so that what is refused leaves nothing written."""
    return [row for statement in list(statements) for row in connection.fetch(statement)]


async def one_by_one_async(connection: AsyncFetching, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements, all made before the first, so that what is refused leaves nothing written."""
    return [row for statement in list(statements) for row in await connection.fetch(statement)]


class Begun(Generator[Statement | Several, Sequence[Row], T]):
    """An operation whose `first` statement is made already, if it has any; who runs it goes on from there."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.first: Statement | Several | None = None
        self._over: StopIteration | None = None
        try:
            self.first = self._next = next(operation)
        except StopIteration as done:
            self._over = done

    def send(self, rows: Sequence[Row] | None) -> Statement | Several:
        """Give the first statement, and from then on what the operation asks next."""
        if self._over is not None:
            raise self._over
        if rows is None:
            return self._next
        return self._operation.send(rows)

    def throw(self, error: Any, *more: Any) -> Statement | Several:
        """Tell the operation what went wrong with its statement."""
        return self._operation.throw(error, *more)


def run(operation: Operation[T], connection: ConnectionT, several: RunSeveral[ConnectionT] = one_by_one) -> T:
    """Drive an operation to its result."""
    try:
        asked = next(operation)
        while True:
            try:
                if isinstance(asked, Statement):
                    rows = connection.fetch(asked)
                else:
                    rows = several(connection, asked.statements)
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                # Thrown in, so that the traceback shows the operation and its line.
                asked = operation.throw(error)
            else:
                asked = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


async def run_async(
    operation: Operation[T],
    connection: AsyncConnectionT,
    several: RunSeveralAsync[AsyncConnectionT] = one_by_one_async,
) -> T:
    """Drive an operation to its result, awaiting each statement."""
    try:
        asked = next(operation)
        while True:
            try:
                if isinstance(asked, Statement):
                    rows = await connection.fetch(asked)
                else:
                    rows = await several(connection, asked.statements)
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                asked = operation.throw(error)
            else:
                asked = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
