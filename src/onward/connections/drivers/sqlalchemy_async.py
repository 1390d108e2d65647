"""The adapter for SQLAlchemy's async connections and sessions; a separate module, as it needs greenlet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from onward.connections.drivers.sqlalchemy import SqlAlchemyDriver, engine_of
from onward.operations.statement import Row, Statement


class AsyncSqlAlchemyConnection(SqlAlchemyDriver):
    """An `AsyncConnection`, `AsyncSession` or `async_scoped_session`; statements run in its transaction."""

    def __init__(
        self, connection: AsyncConnection | AsyncSession | async_scoped_session[AsyncSession], prefix: str
    ) -> None:
        self._opened = connection.registry() if isinstance(connection, async_scoped_session) else connection
        super().__init__(engine_of(self._opened), prefix)

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        return await self._opened.run_sync(self.run_on, statement)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        self.require_none(self._opened)
        async with self._opened.begin():
            await self._opened.run_sync(self.check_begun)
            yield
