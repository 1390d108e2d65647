"""Statements that are asked over and over, on a connection of our own: prepared once, sent by libpq alone.

psycopg's cursors find out each time how to write each value, and how to read the answer: a fifth of the
processor time of an enqueue. What is answered here is on the disk, also what was committed early.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, adapt, errors, generators, pq

from onward.connections.libpq.arrays import Array
from onward.operations.statement import Row, Scalar
from onward.sql.catalogue import Query

# A plan of a finish takes a megabyte of the server's, and a few forms of it are nearly all that come.
MOST_PREPARED = 20
# To prepare one is a round trip of its own.
_OFTEN = 5
_MOST_COUNTED = 100
# A commit that waits for the disk waits for all that was committed before it.
_REACH_THE_DISK = b"SELECT pg_logical_emit_message(true, 'onward', '')"
_names = count()


def new_name() -> bytes:
    """Give a name for a prepared statement; never the same twice, since nobody knows of one that failed."""
    return b"onward_%d" % next(_names)


class Parameters(NamedTuple):
    """What a statement is given, as libpq sends it; `formats`: which is in the server's own form, if any."""

    values: Sequence[bytes | None]
    formats: Sequence[bool] | None = None


_NOTHING = Parameters(())


def encoded(values: Sequence[Scalar | Array], encoding: str) -> Parameters:
    """Write parameters as libpq sends them."""
    written: list[bytes | None] = []
    arrays = False
    for value in values:
        if value is None:
            written.append(None)
        elif isinstance(value, Array):
            written.append(value.written(encoding))
            arrays = True
        else:
            text = str(value).encode(encoding)
            if b"\0" in text:
                # The protocol would end the text there.
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            written.append(text)
    return Parameters(written, [isinstance(value, Array) for value in values] if arrays else None)


def rows_of(result: pq.abc.PGresult, reader: abc.Transformer) -> Sequence[Row]:
    """Read the rows of an answer."""
    reader.set_pgresult(result)
    rows = reader.load_rows(0, result.ntuples, tuple)
    # Else a large answer would be kept until the next.
    reader.set_pgresult(None)
    return rows


class Direct:
    """Asks one connection, which nobody else uses meanwhile; `asking` is what its `wait` runs.

    `early` lets it wake workers before the disk has what was stored, and wait for the disk itself.
    """

    def __init__(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], *, early: bool
    ) -> None:
        self._server = connection.pgconn
        self._encoding = connection.info.encoding
        self._reader = adapt.Transformer(connection)
        self._early = early
        self._times: dict[bytes, int] = {}
        self._prepared: dict[bytes, bytes] = {}

    def takes(self, query: Query) -> bool:
        """Tell whether a statement comes often, and could be tried again: not within a transaction."""
        if not query.plan_once or self._server.transaction_status != pq.TransactionStatus.IDLE:
            return False
        text = self._text(query)
        if text in self._prepared:
            return True
        times = self._times.get(text, 0)
        if times or len(self._times) < _MOST_COUNTED:
            self._times[text] = times + 1
        return times >= _OFTEN and len(self._prepared) < MOST_PREPARED

    def asking(self, query: Query, values: Sequence[Scalar | Array]) -> abc.PQGen[Sequence[Row]]:
        """Ask, and give the rows once the disk has what they tell of."""
        text = self._text(query)
        rows = yield from self._rows(text, encoded(values, self._encoding))
        if text is not query.early:
            return rows
        if any(row[-1] for row in rows):
            yield from self._rows(_REACH_THE_DISK, _NOTHING)
        # The other form gives no rows of these.
        return [row[:-1] for row in rows if not row[-1]]

    def _text(self, query: Query) -> bytes:
        return query.early if self._early and query.early else query.encoded

    def _rows(self, text: bytes, parameters: Parameters) -> abc.PQGen[Sequence[Row]]:
        try:
            result = yield from self._ask(text, parameters)
        except errors.InvalidSqlStatementName:
            # psycopg has all of them forgotten after a rollback.
            self._prepared.clear()
            result = yield from self._ask(text, parameters)
        return rows_of(result, self._reader)

    def _ask(self, text: bytes, parameters: Parameters) -> abc.PQGen[pq.abc.PGresult]:
        name = self._prepared.get(text)
        if name is None:
            name = new_name()
            self._server.send_prepare(name, text)
            yield from self._answer()
            self._prepared[text] = name
        self._server.send_query_prepared(name, parameters.values, parameters.formats)
        return (yield from self._answer())

    def _answer(self) -> abc.PQGen[pq.abc.PGresult]:
        results: list[pq.abc.PGresult] = yield from generators.execute(self._server)
        result = results[-1]
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result, self._encoding)
        return result
