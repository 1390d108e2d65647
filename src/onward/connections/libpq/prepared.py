"""Run frequent statements on Onward's own connections: prepare each once and send it by libpq alone.

psycopg's cursors determine each time how to write each value and how to read the answer, which takes a fifth
of the processor time of an enqueue. When a statement returns here, its writes are on the disk, even if they
were committed early.
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

# A plan of a finish takes a megabyte on the server, and a few forms of it cover nearly all calls.
MOST_PREPARED = 20
# Preparing a statement costs a round trip, so only a statement that comes often is prepared.
_OFTEN = 5
_MOST_COUNTED = 100
# A commit that waits for the disk also waits for all commits before it.
_REACH_THE_DISK = b"SELECT pg_logical_emit_message(true, 'onward', '')"
_names = count()


def new_name() -> bytes:
    """Return a new name for a prepared statement; never reuse one: a failed prepare may have used it."""
    return b"onward_%d" % next(_names)


class EncodedParameters(NamedTuple):
    """The parameters of a statement as libpq sends them; `formats` marks those in binary form, if any."""

    values: Sequence[bytes | None]
    formats: Sequence[bool] | None = None


_NOTHING = EncodedParameters(())


def encoded(values: Sequence[Scalar | Array], encoding: str) -> EncodedParameters:
    """Return parameters as libpq sends them; raise DataError for text with a NUL byte."""
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
                # The protocol would end the text at the NUL byte.
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            written.append(text)
    return EncodedParameters(written, [isinstance(value, Array) for value in values] if arrays else None)


def rows_of(result: pq.abc.PGresult, reader: abc.Transformer) -> Sequence[Row]:
    """Return the rows of an answer."""
    reader.set_pgresult(result)
    rows = reader.load_rows(0, result.ntuples, tuple)
    # Else the reader would keep a large answer in memory until the next one.
    reader.set_pgresult(None)
    return rows


class Direct:
    """Runs statements on one connection, which has no other user meanwhile.

    The connection's `wait` runs the generator that `asking` returns. With `early`, a statement commits and
    wakes workers before its writes are on the disk, and then waits for the disk.
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
        """Whether a statement comes often and can be retried, which it can't inside a transaction."""
        if not query.plan_once or self._server.transaction_status != pq.TransactionStatus.IDLE:
            return False
        text = self._text(query)
        if text in self._prepared:
            return True
        times = self._times.get(text, 0)
        if times or len(self._times) < _MOST_COUNTED:
            self._times[text] = times + 1
        return times >= _OFTEN and len(self._prepared) < MOST_PREPARED

    def exchange(self, query: Query, values: Sequence[Scalar | Array]) -> abc.PQGen[Sequence[Row]]:
        """Run a statement, and return its rows once its writes are on the disk."""
        text = self._text(query)
        rows = yield from self._rows(text, encoded(values, self._encoding))
        if text is not query.early:
            return rows
        if any(row[-1] for row in rows):
            yield from self._rows(_REACH_THE_DISK, _NOTHING)
        # The ordinary form of the statement returns no such rows.
        return [row[:-1] for row in rows if not row[-1]]

    def _text(self, query: Query) -> bytes:
        return query.early if self._early and query.early else query.encoded

    def _rows(self, text: bytes, parameters: EncodedParameters) -> abc.PQGen[Sequence[Row]]:
        try:
            result = yield from self._execute(text, parameters)
        except errors.InvalidSqlStatementName:
            # psycopg deallocates all prepared statements after a rollback.
            self._prepared.clear()
            result = yield from self._execute(text, parameters)
        return rows_of(result, self._reader)

    def _execute(self, text: bytes, parameters: EncodedParameters) -> abc.PQGen[pq.abc.PGresult]:
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
