"""The store of a worker on PostgreSQL: what it does over and over goes through a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from onward.connections.running import Begun, run_async
from onward.operations.statement import Operation, Statement
from onward.stores.pipeline import Pipeline
from onward.stores.postgres_async import TROUBLE, AsyncPostgresStore

__all__ = ["PipelinedStore"]

T = TypeVar("T")

_FOLLOW_EACH_OTHER = frozenset({"claim_jobs", "claim_unpaused_jobs", "finish_jobs"})


class PipelinedStore(AsyncPostgresStore):
    """Has claims follow each other on one connection, and writes of ends on another."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._pipelines: dict[str, Pipeline] = {}

    async def _try(self, make: Callable[[], Operation[T]], *, atomic: bool, org_id: str | None) -> T:
        # What is set for one transaction, or by one connection of a pooler, is not for the next statement.
        alone = atomic or self.row_security or self.pooler is not False
        if alone or not psycopg.Pipeline.is_supported():
            return await super()._try(make, atomic=atomic, org_id=org_id)
        operation = Begun(make())
        first = operation.first
        if not isinstance(first, Statement) or first.name not in _FOLLOW_EACH_OTHER:
            return await super()._try(lambda: operation, atomic=False, org_id=None)
        try:
            return await self._follow(first.name, operation)
        except TROUBLE as error:
            await self._explain(error)
            raise

    async def _follow(self, name: str, operation: Operation[T]) -> T:
        """Run an operation behind those like it, if there are any; the last one gives the connection back."""
        self._require_open()
        pipeline = self._open_one(name) or await self._opened(name)
        pipeline.users += 1
        try:
            return await run_async(operation, pipeline)
        finally:
            pipeline.users -= 1
            if not pipeline.users:
                if self._pipelines.get(name) is pipeline:
                    del self._pipelines[name]
                await pipeline.close()

    def _open_one(self, name: str) -> Pipeline | None:
        pipeline = self._pipelines.get(name)
        return pipeline if pipeline is not None and pipeline.usable else None

    async def _opened(self, name: str) -> Pipeline:
        connection = await self._take(name)
        made = None
        try:
            # Another may have been faster.
            if found := self._open_one(name):
                return found
            made = self._pipelines[name] = Pipeline(connection, self.pool, self.prefix)
            return made
        finally:
            if made is None:
                # One at rest goes back at once: nothing can happen meanwhile to what was found.
                await self.pool.give(connection)
