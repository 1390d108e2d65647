"""A pipeline: statements on one connection, each sent before the one before it is answered.

So the server never waits for a worker that keeps claiming or writing. Two connections would have the same
effect, but concurrent claims skip each other's locked rows, and concurrent writes wait for each other.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Transformer

from onward.connections.driver_calls import postgres_call
from onward.connections.libpq.prepared import MOST_PREPARED, EncodedParameters, encoded, new_name, rows_of
from onward.operations.statement import Row, Rows, Scalar, Statement
from onward.sql.catalogue import Query, catalogue
from onward.stores.postgres.pool import LONGEST_WAIT, AsyncPool, AsyncPooled

_BROKEN = "the connection broke before the answer came"


class Pipeline:
    """A pooled connection in pipeline mode; each statement is its own transaction."""

    def __init__(self, connection: AsyncPooled, pool: AsyncPool, prefix: str) -> None:
        self._connection, self._pool = connection, pool
        self._server = connection.pgconn
        self._encoding = connection.info.encoding
        self._queries = catalogue("postgres", "arrays", prefix)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Sent] = deque()
        self._socket = self._server.socket
        if connection.prepared is None:
            connection.prepared = {}
        self._prepared = connection.prepared
        self._server.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)
        self._reader = Transformer(connection)
        self._written: dict[Query, tuple[Mapping[str, Scalar | Rows], EncodedParameters]] = {}
        self._rests_since = time.monotonic()
        self._half_sent = 0
        self.broken = False
        self.users = 0

    @property
    def usable(self) -> bool:
        """Whether the running loop can send more statements; a closed loop may leave a pipeline behind."""
        if self.broken or self._loop is not asyncio.get_running_loop():
            return False
        return bool(self._waiting) or time.monotonic() - self._rests_since < LONGEST_WAIT

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Send a statement after those that are not answered yet, and return its rows."""
        query, parameters = self._call(self._queries[statement.name], statement)
        try:
            result = await self._request(query.encoded, parameters, prepare=query.steady)
        except errors.InvalidSqlStatementName:
            # psycopg deallocates all prepared statements after a rollback.
            self._prepared.clear()
            result = await self._request(query.encoded, parameters, prepare=query.steady)
        return rows_of(result, self._reader)

    def _call(self, query: Query, statement: Statement) -> tuple[Query, EncodedParameters]:
        """Return the query to send and its parameters, cached because an idle worker repeats a claim."""
        params, parameters = self._written.get(query, (None, None))
        if parameters is not None and params == statement.params:
            return query, parameters
        formed, values = postgres_call(query, statement)
        parameters = encoded(values, self._encoding)
        if not query.sets:
            self._written[query] = statement.params, parameters
        return formed, parameters

    def abandon(self) -> None:
        """End the connection without waiting; callers that wait for an answer get an error."""
        self._break(psycopg.OperationalError(_BROKEN))

    async def close(self) -> None:
        """Return the connection to the pool; end it first if an answer is outstanding."""
        if self._waiting:
            self.abandon()
        try:
            if not self.broken:
                self._stop_watching()
                self._server.exit_pipeline_mode()
        except psycopg.Error as error:
            self._break(error)
        finally:
            await self._pool.give(self._connection)

    async def _request(self, text: bytes, parameters: EncodedParameters, *, prepare: bool) -> pq.abc.PGresult:
        if self.broken:
            raise psycopg.OperationalError(_BROKEN)
        sent = _Sent(self._loop.create_future())
        try:
            self._send(text, parameters, sent, prepare=prepare)
        except BaseException:
            # We can't know how much of it was sent, and libpq may have closed the connection.
            self.abandon()
            raise
        try:
            return await sent.answer
        except asyncio.CancelledError:
            # The next caller would have to wait for the answer to the cancelled statement.
            self.abandon()
            raise

    def _send(self, text: bytes, parameters: EncodedParameters, sent: _Sent, *, prepare: bool) -> None:
        name = self._prepared.get(text)
        if name is None and prepare and len(self._prepared) < MOST_PREPARED:
            sent.preparing = text
            name = self._prepared[text] = new_name()
            self._server.send_prepare(name, text)
        if name is None:
            self._server.send_query_params(text, parameters.values, param_formats=parameters.formats)
        else:
            self._server.send_query_prepared(name, parameters.values, parameters.formats)
        self._server.pipeline_sync()
        if not self._waiting:
            self._pool.note(self._connection)
        self._waiting.append(sent)
        self._write()

    def _write(self) -> None:
        try:
            left = self._server.flush()
        except psycopg.Error as error:
            self._break(error)
            return
        if left:
            self._loop.add_writer(self._socket, self._write)
        elif self._half_sent:
            self._loop.remove_writer(self._socket)
        self._half_sent = left

    def _read(self) -> None:
        try:
            self._server.consume_input()
            while self._waiting and not self._server.is_busy():
                result = self._server.get_result()
                if result is None and self._server.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(_BROKEN)
                self._take(result)
        except psycopg.Error as error:
            self._break(error)

    def _take(self, result: pq.abc.PGresult | None) -> None:
        sent = self._waiting[0]
        match None if result is None else result.status:
            case pq.ExecStatus.COMMAND_OK:
                sent.preparing = None
            case pq.ExecStatus.TUPLES_OK:
                sent.result = result
            case pq.ExecStatus.FATAL_ERROR if result is not None:
                sent.error = errors.error_from_result(result, self._encoding)
            case pq.ExecStatus.PIPELINE_SYNC:
                self._waiting.popleft()
                self._answer(sent)

    def _answer(self, sent: _Sent) -> None:
        # The time of the next statement starts now; a connection without statements may stay idle.
        if self._waiting:
            self._pool.note(self._connection)
        else:
            self._pool.forget(self._connection)
            self._rests_since = time.monotonic()
        if sent.preparing is not None:
            self._prepared.pop(sent.preparing, None)
        sent.resolve()

    def _break(self, error: Exception) -> None:
        if self.broken:
            return
        self.broken = True
        self._stop_watching()
        self._server.finish()
        while self._waiting:
            sent = self._waiting.popleft()
            sent.error = sent.error or error
            sent.resolve()

    def _stop_watching(self) -> None:
        with suppress(ValueError, OSError, RuntimeError):
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)


class _Sent:
    """A statement that was sent, and the answer so far."""

    __slots__ = ("answer", "error", "preparing", "result")

    def __init__(self, answer: asyncio.Future[pq.abc.PGresult]) -> None:
        self.answer = answer
        self.result: pq.abc.PGresult | None = None
        self.error: Exception | None = None
        self.preparing: bytes | None = None

    def resolve(self) -> None:
        """Pass the answer or the error to the caller that waits for it."""
        # The caller was cancelled, or its event loop is closed.
        if self.answer.done() or self.answer.get_loop().is_closed():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        elif self.result is not None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(psycopg.InternalError("the server answered with no rows"))
