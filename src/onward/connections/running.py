"""Run operations on anything that can fetch a statement: the only place where sync and async differ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Protocol, TypeVar

from onward.operations.statement import Operation, Row, Several, Statement
from onward.sql.catalogue import Database

__all__ = ["AsyncConnection", "Connection", "begun", "one_by_one", "one_by_one_async", "run", "run_async"]

T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT", bound="Connection")
AsyncConnectionT = TypeVar("AsyncConnectionT", bound="AsyncConnection")
RunSeveral = Callable[[ConnectionT, Iterator[Statement]], Sequence[Row]]
RunSeveralAsync = Callable[[AsyncConnectionT, Iterator[Statement]], Awaitable[Sequence[Row]]]


class Connection(Protocol):
    """A database connection, ours or the caller's, that runs named statements."""

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

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give all of its rows."""
        ...


class AsyncConnection(Protocol):
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

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give all of its rows."""
        ...


def one_by_one(connection: Connection, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements, all made before the first, so that what is refused leaves nothing written."""
    return [row for statement in list(statements) for row in connection.fetch(statement)]


async def one_by_one_async(connection: AsyncConnection, statements: Iterator[Statement]) -> Sequence[Row]:
    """Run several statements, all made before the first, so that what is refused leaves nothing written."""
    return [row for statement in list(statements) for row in await connection.fetch(statement)]


def begun(operation: Operation[T]) -> tuple[Statement | Several | None, Operation[T]]:
    """Have the first statement of an operation made now, if it has any; who runs it goes on from there."""
    try:
        asked = next(operation)
    except StopIteration as done:
        return None, _answer(done.value)
    return asked, _gone_on(operation, asked)


def _answer(result: T) -> Operation[T]:
    yield from ()
    return result


def _gone_on(operation: Operation[T], asked: Statement | Several) -> Operation[T]:
    try:
        while True:
            try:
                rows = yield asked
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                asked = operation.throw(error)
            else:
                asked = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


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
