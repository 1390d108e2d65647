"""The adapter for SQLAlchemy connections and sessions, on SQLite or PostgreSQL.

Statements go to the driver unchanged, in its own style of parameters, within SQLAlchemy's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from onward.connections.driver_calls import Call, calls, postgres_call
from onward.connections.drivers.sqlite import WRITE_LOCK, commits_by_itself, require_standard_library
from onward.errors import TransactionNotOpen, TransactionOpen, UnsupportedConnection
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, Style, catalogue

_STYLES: dict[str, tuple[Database, Style]] = {
    "sqlite+pysqlite": ("sqlite", "question"),
    "sqlite+aiosqlite": ("sqlite", "question"),
    "postgresql+psycopg": ("postgres", "percent"),
    "postgresql+psycopg2": ("postgres", "percent"),
    "postgresql+asyncpg": ("postgres", "dollar"),
}


class SqlAlchemyDriver:
    """Runs statements on the driver behind an engine; async connections have a sync one inside."""

    def __init__(self, engine: Any, prefix: str) -> None:
        url = engine.url
        unnamed = url.database in {None, "", ":memory:"} or "mode" in url.query
        self.identity = None if unnamed else (url.host, url.port, url.database, *url.query.items())
        self.prefix = prefix
        self.database, self._style = _style(engine.dialect)
        self._queries = catalogue(self.database, self._style, prefix)

    def require_transaction(self) -> None:
        """Do nothing: a check here would begin the transaction before the caller does, so `fetch` checks."""

    def require_none(self, opened: Any) -> None:
        """Raise TransactionOpen if the caller or a statement has begun a transaction."""
        if opened.in_transaction():
            raise TransactionOpen(
                f"this SQLAlchemy {type(opened).__name__} has a transaction open: each statement begins one; "
                "commit it or roll it back before ctx.transaction(), or begin with that"
            )

    def check_begun(self, opened: Connection | Session) -> None:
        """Raise TransactionNotOpen in autocommit mode, before any write; on SQLite take the write lock."""
        connection = opened.connection() if isinstance(opened, Session) else opened
        _require_transaction(connection, self.database)
        if self.database == "sqlite":
            self.run_on(connection, WRITE_LOCK)

    def run_on(self, opened: Connection | Session, statement: Statement) -> Sequence[Row]:
        """Run one named statement in the transaction of a connection or a session, and return its rows."""
        connection = opened.connection() if isinstance(opened, Session) else opened
        _require_transaction(connection, self.database)
        query = self._queries[statement.name]
        if self.database == "sqlite":
            return [row for call in calls(query, statement) for row in _rows(connection, call)]
        query, values = postgres_call(query, statement)
        parameters = (
            values if self._style == "dollar" else dict(zip(query.steps[0].names, values, strict=True))
        )
        return connection.exec_driver_sql(query.steps[0].text, parameters).fetchall()


class SqlAlchemyConnection(SqlAlchemyDriver):
    """A `Connection`, `Session` or `scoped_session`; statements run in its transaction."""

    def __init__(self, connection: Connection | Session | scoped_session[Session], prefix: str) -> None:
        self._opened = connection.registry() if isinstance(connection, scoped_session) else connection
        super().__init__(engine_of(self._opened), prefix)

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        return self.run_on(self._opened, statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        self.require_none(self._opened)
        with self._opened.begin():
            self.check_begun(self._opened)
            yield


def engine_of(opened: Any) -> Any:
    """Return the engine of a connection or a session, sync or async."""
    if not hasattr(opened, "get_bind"):
        return opened.engine
    try:
        return opened.get_bind().engine
    except UnboundExecutionError as error:
        raise UnsupportedConnection(
            "this session has a database for each model, and a job has none; "
            "pass session.connection(bind_arguments={'mapper': ...}) instead"
        ) from error


def _require_transaction(connection: Connection, database: Database) -> None:
    if not connection.in_transaction():
        # The next statement would begin one too. An event may then send BEGIN, as in SQLAlchemy's recipe for
        # SQLite.
        connection.begin()
    raw: Any = connection.connection
    if connection.dialect.driver == "pysqlite":
        require_standard_library(raw.driver_connection)
    automatic = (
        commits_by_itself(raw.driver_connection) if database == "sqlite" else raw.dbapi_connection.autocommit
    )
    if automatic:
        raise TransactionNotOpen(
            "this SQLAlchemy connection has the isolation level AUTOCOMMIT, so each statement would commit "
            "by itself; take one without it, such as `with engine.begin() as connection:`"
        )


def _style(dialect: Dialect) -> tuple[Database, Style]:
    name = f"{dialect.name}+{dialect.driver}"
    if name not in _STYLES:
        raise UnsupportedConnection(
            f"this SQLAlchemy connection uses {name}; connect with one of {', '.join(sorted(_STYLES))}"
        )
    return _STYLES[name]


def _rows(connection: Connection, call: Call) -> Sequence[Row]:
    if not call.returns:
        connection.exec_driver_sql(call.text, call.rows)
        return ()
    rows = [row for values in call.rows for row in connection.exec_driver_sql(call.text, values).fetchall()]
    return call.read(rows)
