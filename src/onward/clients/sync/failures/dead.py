# Generated from src/onward/clients/failures/dead.py by tools/make_sync.py. Edit that file instead.
"""Dead letters: look at the jobs that died, and replay, discard or fix them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from onward.clients.sync.binding import Binding
from onward.core.bulk import Bulk, BulkLimit
from onward.core.failures.dead_letter import DeadFilter, DeadGroup, DeadLetter, Edit, FixPreview, Resolution
from onward.core.inputs.rate import Rate, interval
from onward.core.jobs.ids import AnyJobId, IdMaker, normalise_id
from onward.core.page import Cursor, Page, PageSize
from onward.operations.failures import dead_bulk, dead_groups, dead_letters
from onward.operations.failures.dead_bulk import MOST_PREVIEWS
from onward.operations.failures.dead_groups import MOST_GROUPS
from onward.operations.failures.dead_letters import NO_TIME
from onward.operations.walk import Range

_MANY = 10_000

_make_id = IdMaker(time.time_ns, os.urandom).make


class Dead:
    """Every death of a job is resolved once: by replay, discard or fix forward.

    The actor and the reason are kept. What is said of one job is done to many by the method of the same name
    with `_where`: to the unresolved jobs of a filter, oldest first, one page in each transaction. With
    `dry_run` they are only counted.
    """

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._walk = binding.walk
        self._policies = binding.policies

    def list(
        self, where: DeadFilter | None = None, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[DeadLetter]:
        """Read a page of dead jobs, newest first; without a filter, of the unresolved ones."""
        chosen = where or DeadFilter()
        return self._run(lambda: dead_letters.list_letters(chosen, limit=limit, cursor=cursor), write=False)

    def groups(
        self,
        where: DeadFilter | None = None,
        *,
        limit: Annotated[int, Meta(ge=1, le=MOST_GROUPS)] = 50,
        cursor: Cursor | None = None,
    ) -> Page[DeadGroup]:
        """Read a page of groups of unresolved dead jobs; the group with the newest job comes first.

        `group` may be the beginning of a fingerprint. Raises InvalidSetting for a filter by subject.
        """
        chosen = where or DeadFilter()
        return self._run(lambda: dead_groups.list_groups(chosen, limit=limit, cursor=cursor), write=False)

    def get(self, job_id: AnyJobId) -> DeadLetter:
        """Read a dead job and how it was resolved; raises JobNotFound."""
        wanted = normalise_id(job_id)
        return self._run(lambda: dead_letters.get_letter(wanted), write=False)

    def origin(self, successor_id: AnyJobId) -> DeadLetter | None:
        """Find the dead job that this job was made to replace; None if there is none."""
        wanted = normalise_id(successor_id)
        return self._run(lambda: dead_letters.origin(wanted), write=False)

    def history(self, job_id: AnyJobId) -> Page[Resolution]:
        """Read how each earlier death of a job was resolved, oldest first, on one page."""
        wanted = normalise_id(job_id)
        return self._run(lambda: dead_letters.history(wanted), write=False)

    def replay(self, ids: Collection[AnyJobId], *, reason: str, reset_attempts: bool = True) -> Bulk:
        """Let dead jobs run again under their own ids: from the first attempt, or for one more attempt.

        A job is refused if another job holds its key by now.
        """
        policies = self._policies
        return self._run(
            lambda: dead_letters.replay(ids, reason=reason, policies=policies, reset_attempts=reset_attempts)
        )

    def replay_where(
        self,
        where: DeadFilter,
        *,
        reason: str,
        rate: Rate | None = None,
        reset_attempts: bool = True,
        limit: BulkLimit = _MANY,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> Bulk:
        """Replay the unresolved jobs of a filter.

        With a `rate`, such as "10/s", the jobs become due one after another, also across calls that continue
        by `cursor`. Raises InvalidSetting if that would take more than a year.
        """
        return self._walk(
            dead_bulk.replay(
                where,
                Range(listing="dead.replay", limit=limit, cursor=cursor),
                self._policies,
                reason=reason,
                reset_attempts=reset_attempts,
                every=NO_TIME if rate is None else interval("rate", rate),
                dry_run=dry_run,
            ),
            dry_run=dry_run,
        )

    def discard(self, ids: Collection[AnyJobId], *, reason: str) -> Bulk:
        """Leave jobs dead for good; their rows stay."""
        return self._run(
            lambda: dead_letters.discard(ids, reason=reason, policies=self._policies), atomic=True
        )

    def discard_where(
        self,
        where: DeadFilter,
        *,
        reason: str,
        limit: BulkLimit = _MANY,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> Bulk:
        """Discard the unresolved jobs of a filter."""
        covered = Range(listing="dead.discard", limit=limit, cursor=cursor)
        return self._walk(
            dead_bulk.discard(where, covered, self._policies, reason=reason, dry_run=dry_run),
            dry_run=dry_run,
        )

    def fix(self, job_id: AnyJobId, edit: Edit, *, reason: str) -> DeadLetter:
        """Enqueue an edited copy of a dead job, which takes over its key; the dead job stays as it is.

        Raises JobNotFound, AlreadyResolved, and InvalidSetting for an edit that changes nothing.
        """
        wanted, successor_id = normalise_id(job_id), _make_id()
        return self._run(
            lambda: dead_letters.fix(wanted, edit, successor_id, reason=reason, policies=self._policies),
            atomic=True,
        )

    def fix_where(
        self,
        where: DeadFilter,
        edit: Edit,
        *,
        reason: str,
        limit: BulkLimit = _MANY,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> Bulk:
        """Fix the unresolved jobs of a filter by one edit, each in its own transaction.

        Raises InvalidSetting for an edit with a payload, which only one job can get.
        """
        return self._walk(
            dead_bulk.fix(
                where,
                edit,
                Range(listing="dead.fix", limit=limit, cursor=cursor),
                self._policies,
                reason=reason,
                make_id=_make_id,
                dry_run=dry_run,
            ),
            dry_run=dry_run,
        )

    def preview(self, job_id: AnyJobId, edit: Edit) -> FixPreview:
        """Return what a fix would change in a dead job; raises JobNotFound and AlreadyResolved."""
        wanted = normalise_id(job_id)
        return self._run(
            lambda: dead_bulk.preview_one(wanted, edit, _make_id(), policies=self._policies), write=False
        )

    def preview_where(
        self, where: DeadFilter, edit: Edit, *, limit: Annotated[int, Meta(ge=1, le=MOST_PREVIEWS)] = 5
    ) -> Page[FixPreview]:
        """Return what a fix would change in the newest unresolved jobs of a filter, on one page."""
        return self._run(
            lambda: dead_bulk.preview(where, edit, _make_id(), policies=self._policies, limit=limit),
            write=False,
        )
