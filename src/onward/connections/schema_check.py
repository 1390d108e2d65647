"""Check that the database of a caller's connection has Onward's tables; remember each database that does."""

from __future__ import annotations

from collections.abc import Hashable

from onward.connections.run import AsyncConnection, Connection
from onward.errors import SchemaMissing
from onward.operations.statement import Operation, Statement

_found: set[Hashable] = set()


def require_tables(connection: Connection | AsyncConnection) -> Operation[None]:
    """Raise SchemaMissing if the tables are missing; the transaction stays usable."""
    identity, prefix = connection.identity, connection.prefix
    place = (connection.database, prefix, identity)
    if identity is not None and place in _found:
        return
    rows = yield Statement("tables_exist", {"table": f"{prefix}live"})
    if not rows:
        where = f"schema {prefix.rstrip('.')!r}" if prefix.endswith(".") else f"tables {prefix}*"
        raise SchemaMissing(
            f"this connection's database has no {where} of Onward; run onward migrate or client.migrate() "
            "on it, or give a connection to the database that the client's store is in"
        )
    if identity is not None:
        _found.add(place)
