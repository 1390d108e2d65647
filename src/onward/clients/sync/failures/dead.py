# Generated from src/onward/clients/failures/dead.py by tools/make_sync.py. Edit that file instead.
"""Dead letters: look at the jobs that died, and replay, discard or fix them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Unpack
from uuid import UUID

from onward.clients.sync.binding import Binding
from onward.core.failures.dead_letter import (
    DeadLetter,
    DeadLetterPage,
    Edit,
    FixPreview,
    GroupPage,
    Resolution,
    Resolved,
)
from onward.core.inputs.checks import check_kind
from onward.core.inputs.rate import Rate, interval
from onward.core.jobs.ids import IdMaker, JobId, normalise_id
from onward.errors import AlreadyResolved, InvalidJob, InvalidSetting, JobNotFound
from onward.operations.failures import dead_bulk, dead_groups, dead_letters
from onward.operations.failures.dead_bulk import ResolvedMany
from onward.operations.failures.dead_filter import DeadFilter
from onward.operations.failures.dead_letters import NO_TIME

Progress = Callable[[ResolvedMany], None]
"""Called after each page with the totals so far."""

_MANY = 10_000

_make_id = IdMaker(time.time_ns, os.urandom).make


def _normalised(ids: JobId | UUID | Collection[JobId | UUID]) -> Collection[JobId]:
    if isinstance(ids, str | UUID):
        return {normalise_id(ids)}
    check_kind("ids", ids, list | tuple | set | frozenset, "give a job id, or a list of them")
    return {normalise_id(job_id) for job_id in ids}


class Dead:
    """Every death of a job is resolved once: by replay, discard or fix forward.

    The actor and the reason are kept.
    """

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def list(
        self,
        *,
        resolved: bool | None = False,
        limit: int = 50,
        cursor: JobId | None = None,
        **where: Unpack[DeadFilter],
    ) -> DeadLetterPage:
        """Read a page of dead jobs, newest first: unresolved, resolved, or (None) both."""
        return self._run(
            lambda: dead_letters.list_letters(where, resolved=resolved, limit=limit, cursor=cursor),
            write=False,
        )

    def groups(
        self, *, limit: int = 50, cursor: JobId | None = None, **where: Unpack[DeadFilter]
    ) -> GroupPage:
        """Read a page of groups of unresolved dead jobs; the group with the newest job comes first.

        `group` may be the beginning of a fingerprint.
        """
        return self._run(lambda: dead_groups.list_groups(where, limit=limit, cursor=cursor), write=False)

    def find(self, beginning: str, *, limit: int = 2) -> Sequence[JobId]:
        """Find at most `limit` dead jobs whose ids start with `beginning`."""
        return self._run(lambda: dead_bulk.find_ids(beginning, limit), write=False)

    def get(self, job_id: JobId | UUID) -> DeadLetter:
        """Read a dead job and how it was resolved; raises JobNotFound."""
        asked = normalise_id(job_id)
        return self._run(lambda: dead_letters.get_letter(asked), write=False)

    def origin(self, successor_id: JobId | UUID) -> DeadLetter | None:
        """Find the dead job that this job was made to replace; None if there is none."""
        asked = normalise_id(successor_id)
        return self._run(lambda: dead_letters.origin(asked), write=False)

    def history(self, job_id: JobId | UUID) -> Sequence[Resolution]:
        """Read how each earlier death of a job was resolved, oldest first."""
        asked = normalise_id(job_id)
        return self._run(lambda: dead_letters.history(asked), write=False)

    def replay(
        self, ids: JobId | UUID | Collection[JobId | UUID], *, reason: str, reset_attempts: bool = True
    ) -> Resolved:
        """Let dead jobs run again under their own ids: from the first attempt, or for one more attempt.

        A job is refused if another job holds its key by now.
        """
        asked = _normalised(ids)
        return self._run(
            lambda: dead_letters.replay(
                asked, reason=reason, policies=self._policies, reset_attempts=reset_attempts
            )
        )

    def discard(self, ids: JobId | UUID | Collection[JobId | UUID], *, reason: str) -> Resolved:
        """Leave jobs dead for good; their rows stay."""
        asked = _normalised(ids)
        return self._run(
            lambda: dead_letters.discard(asked, reason=reason, policies=self._policies), atomic=True
        )

    def fix(
        self,
        job_id: JobId | UUID,
        *,
        note: str,
        payload: Mapping[str, Any] | None = None,
        patch: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
    ) -> DeadLetter:
        """Enqueue an edited copy of a dead job, which takes over its key; the dead job stays as it is.

        `patch` is merged into the payload; a null removes a field. Raises JobNotFound and AlreadyResolved.
        """
        asked, successor_id = normalise_id(job_id), _make_id()
        edit = Edit(payload=payload, patch=patch, queue=queue, priority=priority, max_attempts=max_attempts)
        return self._run(
            lambda: dead_letters.fix(asked, edit, successor_id, note=note, policies=self._policies),
            atomic=True,
        )

    def preview(
        self,
        job_id: JobId | UUID | None = None,
        *,
        payload: Mapping[str, Any] | None = None,
        patch: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        limit: int = 5,
        **where: Unpack[DeadFilter],
    ) -> Sequence[FixPreview]:
        """Return what a fix would change in one dead job, or in the newest jobs of a filter.

        Writes nothing.
        """
        edit = Edit(payload=payload, patch=patch, queue=queue, priority=priority, max_attempts=max_attempts)
        if job_id is None:
            return self._run(
                lambda: dead_bulk.preview(where, edit, _make_id(), policies=self._policies, limit=limit),
                write=False,
            )
        asked = normalise_id(job_id)
        one = self._run(
            lambda: dead_bulk.preview_one(asked, edit, _make_id(), policies=self._policies), write=False
        )
        return [one]

    def replay_all(
        self,
        *,
        reason: str,
        rate: Rate | None = None,
        reset_attempts: bool = True,
        limit: int = _MANY,
        cursor: JobId | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        **where: Unpack[DeadFilter],
    ) -> ResolvedMany:
        """Replay unresolved jobs that match the filter, oldest first, one page in each transaction.

        With a `rate`, such as "10/s", the jobs become due one after another. With `dry_run` they are only
        counted.
        """
        every = NO_TIME if rate is None else interval("rate", rate)

        def resolve(ids: Collection[JobId], so_far: ResolvedMany) -> Resolved:
            # The delay counts from the clock of each page. That clock only moves forward, so the rate is
            # never exceeded.
            delay = dead_bulk.turn_of(so_far.done, every)
            return self._run(
                lambda: dead_letters.replay(
                    ids,
                    reason=reason,
                    policies=self._policies,
                    reset_attempts=reset_attempts,
                    delay=delay,
                    every=every,
                )
            )

        return self._all(where, None if dry_run else resolve, limit, cursor, progress)

    def discard_all(
        self,
        *,
        reason: str,
        limit: int = _MANY,
        cursor: JobId | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        **where: Unpack[DeadFilter],
    ) -> ResolvedMany:
        """Discard unresolved jobs that match the filter, one page in each transaction."""

        def resolve(ids: Collection[JobId], _so_far: ResolvedMany) -> Resolved:
            return self.discard(ids, reason=reason)

        return self._all(where, None if dry_run else resolve, limit, cursor, progress)

    def fix_all(
        self,
        *,
        note: str,
        patch: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        limit: int = _MANY,
        cursor: JobId | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        **where: Unpack[DeadFilter],
    ) -> ResolvedMany:
        """Fix unresolved jobs that match the filter by one patch, each in its own transaction."""
        Edit(patch=patch).check()
        mend = partial(
            self.fix, note=note, patch=patch, queue=queue, priority=priority, max_attempts=max_attempts
        )

        def resolve(ids: Collection[JobId], _so_far: ResolvedMany) -> Resolved:
            refused: dict[JobId, str] = {}
            for job_id in ids:
                try:
                    mend(job_id)
                except (AlreadyResolved, InvalidJob, InvalidSetting, JobNotFound) as error:
                    refused[job_id] = str(error)
            return Resolved(frozenset(ids) - set(refused), refused)

        return self._all(where, None if dry_run else resolve, limit, cursor, progress)

    def _all(
        self,
        where: DeadFilter,
        resolve: Callable[[Collection[JobId], ResolvedMany], Resolved] | None,
        limit: int,
        cursor: JobId | None,
        progress: Progress | None,
    ) -> ResolvedMany:
        answer = ResolvedMany(next_cursor=None if cursor is None else normalise_id(cursor))
        while True:
            pick = partial(dead_bulk.pick, where, answer, limit=limit, count=resolve is None)
            picked = self._run(pick, write=False)
            resolved = Resolved(frozenset(), {})
            if resolve is not None and picked.ids:
                # One transaction for each page: what is resolved stays resolved if a later page fails.
                resolved = resolve(picked.ids, answer)
            answer = answer.plus(picked, resolved)
            if progress is not None:
                progress(answer)
            if answer.next_cursor is None or answer.found >= limit:
                return answer
