"""Run operations on anything that can fetch a statement: the only place where sync and async differ."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from onward.operations.statement import Operation, Row, Statement
from onward.sql.catalogue import Database

__all__ = ["AsyncConnection", "Connection", "run", "run_async"]

T = TypeVar("T")


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


def run(operation: Operation[T], connection: Connection) -> T:
    """Drive an operation to its result."""
    try:
        statement = next(operation)
        while True:
            try:
                rows = connection.fetch(statement)
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                # Thrown in, so that the traceback shows the operation and its line.
                statement = operation.throw(error)
            else:
                statement = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


async def run_async(operation: Operation[T], connection: AsyncConnection) -> T:
    """Drive an operation to its result, awaiting each statement."""
    try:
        statement = next(operation)
        while True:
            try:
                rows = await connection.fetch(statement)
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                statement = operation.throw(error)
            else:
                statement = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
