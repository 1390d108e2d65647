"""Finds the jobs of a claim whose answer never came: the worker's lease is alive, so no rescue would."""

from __future__ import annotations

import time
from collections.abc import Callable

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.worker.loops.lease_keeper import Keeper

_PAUSE_SECONDS = 1.0
# The server may finish a claim after the worker has given it up.
_DOUBT_SECONDS = 10.0


class LostClaims:
    """Compares the jobs that the database counts as this worker's with those that it holds."""

    def __init__(self, client: AsyncClient, keeper: Keeper, held_ids: Callable[[], set[str]]) -> None:
        self._client = client
        self._keeper = keeper
        self._held_ids = held_ids
        self._since: float | None = None
        self._next_at = 0.0

    @property
    def due(self) -> bool:
        """Whether a claim failed some time ago, so that its jobs should be looked for."""
        return self._since is not None and time.monotonic() >= self._next_at

    def suspect(self) -> None:
        """Record that a claim has failed, and perhaps only its answer was lost."""
        self._since, self._next_at = time.monotonic(), 0.0

    async def find(self) -> list[Job]:
        """Return the jobs that this worker holds without knowing it."""
        now = time.monotonic()
        self._next_at = now + _PAUSE_SECONDS
        # Read first: a job that ends while the database answers must not look like a lost one.
        known, worker_id = self._held_ids(), self._keeper.worker_id
        held = await self._client.worker.held(worker_id)
        if self._since is not None and now - self._since > _DOUBT_SECONDS:
            self._since = None
        if worker_id != self._keeper.worker_id:
            return []
        return [job for job in held if job.id not in known]
