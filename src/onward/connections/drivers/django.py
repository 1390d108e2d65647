"""The adapters for Django's connections: `django.db.connection` and `connections["alias"]`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.utils.connection import ConnectionProxy

from onward.connections.driver_calls import postgres_call
from onward.connections.drivers.sqlite import WRITE_LOCK, SqliteConnection, require_standard_library
from onward.errors import TransactionNotOpen, TransactionOpen, UnsupportedConnection
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, catalogue


def django_connection(connection: Any, prefix: str) -> DjangoPostgresConnection | DjangoSqliteConnection:
    """Return the adapter for a Django connection, or for the connection of a proxy, by its database."""
    # The proxy leads to this thread's connection now; later it may lead to another transaction.
    wrapper = connections[connection.alias] if isinstance(connection, ConnectionProxy) else connection
    match wrapper.vendor:
        case "sqlite":
            return DjangoSqliteConnection(wrapper, prefix)
        case "postgresql":
            return DjangoPostgresConnection(wrapper, prefix)
        case vendor:
            raise UnsupportedConnection(
                f"this Django connection leads to {vendor}; give one to SQLite or PostgreSQL"
            )


class DjangoSqliteConnection(SqliteConnection):
    """A Django connection to SQLite; statements bypass its cursor, which takes other placeholders."""

    def __init__(self, wrapper: Any, prefix: str) -> None:
        wrapper.ensure_connection()
        require_standard_library(wrapper.connection)
        super().__init__(wrapper.connection, prefix)
        self._wrapper = wrapper

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if the connection is outside `atomic()`."""
        _require_atomic(self._wrapper)

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        # Django's own cursor refuses a statement in a block that must be rolled back; sqlite3 would run it.
        self._wrapper.validate_no_broken_transaction()
        return super().fetch(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        with _atomic(self._wrapper):
            self.fetch(WRITE_LOCK)
            yield


class DjangoPostgresConnection:
    """A Django connection to PostgreSQL, through psycopg 3 or psycopg2."""

    database: Database = "postgres"

    def __init__(self, wrapper: Any, prefix: str) -> None:
        self.prefix = prefix
        self._wrapper = wrapper
        self._queries = catalogue("postgres", "percent", prefix)

    @property
    def identity(self) -> Hashable | None:
        """The address and name of the database; None if they are unknown."""
        settings = self._wrapper.settings_dict
        return (settings["HOST"], str(settings["PORT"]), settings["NAME"]) if settings["NAME"] else None

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if the connection is outside `atomic()`."""
        _require_atomic(self._wrapper)

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        query, values = postgres_call(self._queries[statement.name], statement)
        [step] = query.steps
        with self._wrapper.cursor() as cursor:
            cursor.execute(step.text, dict(zip(step.names, values, strict=True)))
            rows: Sequence[Row] = cursor.fetchall()
            return rows

    def transaction(self) -> Any:
        """Begin a transaction that commits at its end and rolls back on an error."""
        return _atomic(self._wrapper)


def _atomic(wrapper: Any) -> Any:
    if not wrapper.get_autocommit():
        raise TransactionOpen(
            f"the Django connection {wrapper.alias!r} has a transaction open, by atomic() or "
            "ATOMIC_REQUESTS; call ctx.transaction() outside it: it begins one and commits it"
        )
    return transaction.atomic(using=wrapper.alias, durable=True)


def _require_atomic(wrapper: Any) -> None:
    if wrapper.get_autocommit():
        raise TransactionNotOpen(
            f"the Django connection {wrapper.alias!r} is in autocommit mode outside atomic(), so each "
            "statement would commit by itself; call within() inside "
            f"`with transaction.atomic(using={wrapper.alias!r}):`"
        )
