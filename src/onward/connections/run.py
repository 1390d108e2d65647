"""Run operations on any object that can fetch a statement; only here do sync and async differ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from onward.operations.statement import Operation, Row, Several, Statement
from onward.sql.catalogue import Database

T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT", bound="Fetching")
AsyncConnectionT = TypeVar("AsyncConnectionT", bound="AsyncFetching")
RunSeveral = Callable[[ConnectionT, Iterator[Statement]], Sequence[Row]]
RunSeveralAsync = Callable[[AsyncConnectionT, Iterator[Statement]], Awaitable[Sequence[Row]]]


class Fetching(Protocol):
    """An object that runs named statements."""

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return all of its rows."""
        ...


class AsyncFetching(Protocol):
    """An object that runs named statements for async callers."""

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return all of its rows."""
        ...


class Connection(Fetching, Protocol):
    """A sync database connection, Onward's or the caller's."""

    @property
    def database(self) -> Database:
        """The kind of database behind it."""
        ...

    @property
    def prefix(self) -> str:
        """The prefix of the names of Onward's tables."""
        ...

    @property
    def identity(self) -> Hashable | None:
        """A value that identifies the database; None if only a query could tell."""
        ...

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        ...


class AsyncConnection(AsyncFetching, Protocol):
    """An async database connection, Onward's or the caller's."""

    @property
    def database(self) -> Database:
        """The kind of database behind it."""
        ...

    @property
    def prefix(self) -> str:
        """The prefix of the names of Onward's tables."""
        ...

    @property
    def identity(self) -> Hashable | None:
        """A value that identifies the database; None if only a query could tell."""
        ...

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        ...


def one_by_one(connection: Fetching, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements; make all of them first, so that an invalid one leaves nothing written."""
    return [row for statement in list(statements) for row in connection.fetch(statement)]


async def one_by_one_async(connection: AsyncFetching, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements; make all of them first, so that an invalid one leaves nothing written."""
    return [row for statement in list(statements) for row in await connection.fetch(statement)]


class Begun(Generator[Statement | Several, Sequence[Row], T]):
    """An operation whose `first` statement, if any, is already made; its runner continues from there."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.first: Statement | Several | None = None
        self._over: StopIteration | None = None
        try:
            self.first = self._next = next(operation)
        except StopIteration as done:
            self._over = done

    def send(self, rows: Sequence[Row] | None) -> Statement | Several:
        """Return the first statement, then with each call the operation's next statement."""
        if self._over is not None:
            raise self._over
        if rows is None:
            return self._next
        return self._operation.send(rows)

    def throw(self, error: Any, *more: Any) -> Statement | Several:
        """Raise the error of a statement inside the operation; return the operation's next statement."""
        return self._operation.throw(error, *more)


def run(operation: Operation[T], connection: ConnectionT, several: RunSeveral[ConnectionT] = one_by_one) -> T:
    """Run an operation and return its result."""
    try:
        step = next(operation)
        while True:
            try:
                if isinstance(step, Statement):
                    rows = connection.fetch(step)
                else:
                    rows = several(connection, step.statements)
            except Exception as error:  # noqa: BLE001 - rethrown in the operation
                # Thrown into the operation, so that the traceback shows the operation and its line.
                step = operation.throw(error)
            else:
                step = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


async def run_async(
    operation: Operation[T],
    connection: AsyncConnectionT,
    several: RunSeveralAsync[AsyncConnectionT] = one_by_one_async,
) -> T:
    """Run an operation, awaiting each statement, and return its result."""
    try:
        step = next(operation)
        while True:
            try:
                if isinstance(step, Statement):
                    rows = await connection.fetch(step)
                else:
                    rows = await several(connection, step.statements)
            except Exception as error:  # noqa: BLE001 - rethrown in the operation
                step = operation.throw(error)
            else:
                step = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
