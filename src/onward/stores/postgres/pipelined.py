"""The store of a worker on PostgreSQL: its claims and its writes of ended jobs go through pipelines."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from onward.connections.run import run_async
from onward.operations.statement import Operation, Row, Statement
from onward.stores.postgres.pipeline import Pipeline
from onward.stores.postgres.postgres_store import TROUBLE, AsyncPostgresStore

T = TypeVar("T")

# The statements that are pipelined, and the name of the pipeline that each of them uses.
_PIPELINES = {
    "claim_jobs": "claims",
    "claim_unpaused_jobs": "claims",
    "finish_alike": "ends",
    "finish_jobs": "ends",
}


class PipelinedStore(AsyncPostgresStore):
    """Pipelines claims on one connection, and writes of ended jobs on another."""

    def __init__(self, url: str, *, pool_size: int = 10, **options: Any) -> None:
        # Pipelines keep their connections, so the pool needs as many more.
        super().__init__(url, pool_size=pool_size + len(set(_PIPELINES.values())), **options)
        self._pipelines: dict[str, Pipeline] = {}
        self._supported = psycopg.Pipeline.is_supported()
        # For a store that was never closed, as in the pool.
        weakref.finalize(self, _abandon, self._pipelines, os.getpid())

    async def _try(self, make: Callable[[], Operation[T]], *, atomic: bool, org_id: str | None) -> T:
        # A pipeline can't keep what is set for one transaction, nor what is set on one server connection of
        # a pooler, for the next statement.
        alone = atomic or self.row_security or self.pooler is not False
        if alone or not self._supported:
            return await super()._try(make, atomic=atomic, org_id=org_id)
        try:
            return await run_async(make(), self)
        except TROUBLE as error:
            await self._explain(error)
            raise

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run a statement in its own transaction, in its pipeline or else on any connection."""
        if statement.name in _PIPELINES:
            return await self._fetch_pipelined(statement)
        connection = await self._take()
        try:
            return await self._adapted(connection).fetch(statement)
        finally:
            await self.pool.give(connection)

    async def close(self) -> None:
        """Close all connections; a caller that waits for an answer still gets it."""
        await self._close_unused()
        await super().close()

    async def _drop(self) -> None:
        await self._close_unused()
        await super()._drop()

    async def _close_unused(self) -> None:
        for name, pipeline in list(self._pipelines.items()):
            if not pipeline.users:
                await self._close_pipeline(name, pipeline)

    async def _fetch_pipelined(self, statement: Statement) -> Sequence[Row]:
        """Run a statement in its pipeline, whose connection is kept because the next statement comes soon."""
        self._require_open()
        name = _PIPELINES[statement.name]
        pipeline = self._usable(name) or await self._opened(name)
        pipeline.users += 1
        try:
            return await pipeline.fetch(statement)
        finally:
            pipeline.users -= 1
            if not pipeline.users and (pipeline.broken or self._closed):
                await self._close_pipeline(name, pipeline)

    async def _close_pipeline(self, name: str, pipeline: Pipeline) -> None:
        if self._pipelines.get(name) is pipeline:
            del self._pipelines[name]
        await pipeline.close()

    def _usable(self, name: str) -> Pipeline | None:
        pipeline = self._pipelines.get(name)
        return pipeline if pipeline is not None and pipeline.usable else None

    async def _opened(self, name: str) -> Pipeline:
        old = self._pipelines.get(name)
        if old is not None and not old.users:
            await self._close_pipeline(name, old)
        connection = await self._take(name)
        made = None
        try:
            # Another task may have opened the pipeline during the await.
            if found := self._usable(name):
                return found
            made = self._pipelines[name] = Pipeline(connection, self.pool, self.prefix)
            return made
        finally:
            if made is None:
                # Returning an idle connection does not suspend, so the pipeline that was found stays usable.
                await self.pool.give(connection)


def _abandon(pipelines: dict[str, Pipeline], process: int) -> None:
    """End connections without waiting, except in a forked child: the parent still uses them."""
    for pipeline in pipelines.values() if os.getpid() == process else ():
        pipeline.abandon()
