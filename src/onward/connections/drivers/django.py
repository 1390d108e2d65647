"""Django's database connections: `django.db.connection` and `connections["alias"]`."""

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
    """Adapt a connection of Django, or the proxy that stands for it, by its database."""
    # The proxy leads to this thread's connection, now; what it leads to later is another transaction.
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
    """A connection of Django to SQLite; its cursor takes other placeholders, so statements go below it."""

    def __init__(self, wrapper: Any, prefix: str) -> None:
        wrapper.ensure_connection()
        require_standard_library(wrapper.connection)
        super().__init__(wrapper.connection, prefix)
        self._wrapper = wrapper

    def require_transaction(self) -> None:
        """Refuse a connection outside `atomic()`."""
        _require_atomic(self._wrapper)

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give its rows."""
        # Django's own cursor would refuse this, and only it knows that the block is bound to be rolled back.
        self._wrapper.validate_no_broken_transaction()
        return super().fetch(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction; commits at the end, rolls back on an error."""
        with _atomic(self._wrapper):
            self.fetch(WRITE_LOCK)
            yield


class DjangoPostgresConnection:
    """A connection of Django to PostgreSQL, by psycopg 3 or psycopg2."""

    database: Database = "postgres"

    def __init__(self, wrapper: Any, prefix: str) -> None:
        self.prefix = prefix
        self._wrapper = wrapper
        self._queries = catalogue("postgres", "percent", prefix)

    @property
    def identity(self) -> Hashable | None:
        """Tell which database this is, by address and name."""
        settings = self._wrapper.settings_dict
        return (settings["HOST"], str(settings["PORT"]), settings["NAME"]) if settings["NAME"] else None

    def require_transaction(self) -> None:
        """Refuse a connection outside `atomic()`."""
        _require_atomic(self._wrapper)

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give its rows."""
        query, values = postgres_call(self._queries[statement.name], statement)
        [step] = query.steps
        with self._wrapper.cursor() as cursor:
            cursor.execute(step.text, dict(zip(step.names, values, strict=True)))
            rows: Sequence[Row] = cursor.fetchall()
            return rows

    def transaction(self) -> Any:
        """Begin a transaction; commits at the end, rolls back on an error."""
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
