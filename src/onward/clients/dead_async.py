"""Dead letters: look at what died, and replay, discard or fix it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from onward.clients.running import AsyncRun
from onward.core.arguments import check_kind
from onward.core.ids import IdMaker, JobId, normalise_id
from onward.core.rules import Rules
from onward.operations import dead_letter
from onward.operations.dead_letter import DeadLetter, DeadLetterPage, Edit, Resolution, Resolved

__all__ = ["AsyncDead"]

_make_id = IdMaker(time.time_ns, os.urandom).make


def _normalised(ids: Collection[JobId | UUID]) -> Collection[JobId]:
    check_kind("ids", ids, list | tuple | set | frozenset, "give a list of job ids")
    return {normalise_id(job_id) for job_id in ids}


class AsyncDead:
    """Every death of a job is resolved once, in one of three ways, by somebody, for a reason that is kept."""

    def __init__(self, run: AsyncRun, rules: Rules) -> None:
        self._run = run
        self._rules = rules

    async def list(
        self,
        *,
        job_type: str | None = None,
        org_id: str | None = None,
        resolved: bool | None = False,
        limit: int = 50,
        cursor: JobId | None = None,
    ) -> DeadLetterPage:
        """Read a page of dead jobs, newest first: unresolved ones, resolved ones, or (None) both."""
        return await self._run(
            lambda: dead_letter.list_letters(
                job_type=job_type, org_id=org_id, resolved=resolved, limit=limit, cursor=cursor
            ),
            write=False,
        )

    async def get(self, job_id: JobId | UUID) -> DeadLetter:
        """Read a dead job and what became of it; raises JobNotFound."""
        asked = normalise_id(job_id)
        return await self._run(lambda: dead_letter.get_letter(asked), write=False)

    async def origin(self, successor_id: JobId | UUID) -> DeadLetter | None:
        """Find the dead job that this one was made to replace; None if there is none."""
        asked = normalise_id(successor_id)
        return await self._run(lambda: dead_letter.origin(asked), write=False)

    async def history(self, job_id: JobId | UUID) -> Sequence[Resolution]:
        """Read what became of each earlier death of a job, oldest first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: dead_letter.history(asked), write=False)

    async def replay(
        self,
        ids: Collection[JobId | UUID],
        *,
        reason: str,
        actor_type: str | None = None,
        actor_id: str | None = None,
        reset_attempts: bool = True,
        now: datetime | None = None,
    ) -> Resolved:
        """Let dead jobs run again under their own ids: from the first attempt, or for one more.

        One whose key another job has meanwhile is refused.
        """
        asked, by = _normalised(ids), (actor_type, actor_id)
        return await self._run(
            lambda: dead_letter.replay(
                asked, reason=reason, by=by, rules=self._rules, reset_attempts=reset_attempts, now=now
            )
        )

    async def discard(
        self,
        ids: Collection[JobId | UUID],
        *,
        reason: str,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> Resolved:
        """Leave jobs dead for good; their rows stay."""
        asked, by = _normalised(ids), (actor_type, actor_id)
        return await self._run(
            lambda: dead_letter.discard(asked, reason=reason, by=by, rules=self._rules, now=now)
        )

    async def fix(
        self,
        job_id: JobId | UUID,
        *,
        note: str,
        payload: Mapping[str, Any] | None = None,
        patch: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        actor_type: str | None = None,
        actor_id: str | None = None,
        now: datetime | None = None,
    ) -> DeadLetter:
        """Enqueue an edited copy of a dead job, which takes its key over; the dead one stays as it is.

        `patch` is merged into the payload, and null removes. Raises JobNotFound and AlreadyResolved.
        """
        asked, successor_id, by = normalise_id(job_id), _make_id(), (actor_type, actor_id)
        edit = Edit(payload=payload, patch=patch, queue=queue, priority=priority, max_attempts=max_attempts)
        return await self._run(
            lambda: dead_letter.fix(asked, edit, successor_id, note=note, by=by, rules=self._rules, now=now),
            atomic=True,
        )
