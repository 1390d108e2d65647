"""Bulk changes of dead letters: they are found page by page, oldest job first, and can be previewed."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from onward.core.failures.dead_letter import DeadLetter, Edit, FixPreview, Resolved
from onward.core.inputs.checks import whole
from onward.core.jobs.ids import JobId, bounds_of
from onward.core.policy.policies import Policies
from onward.core.work.retry import LONGEST_DELAY
from onward.errors import InvalidSetting, OnwardError
from onward.operations.failures import dead_letters
from onward.operations.failures.dead_filter import DeadFilter, picking
from onward.operations.statement import Operation, Statement

AT_ONCE = 200
"""At most this many are resolved in one transaction."""

_MOST = 1_000_000
_COUNTED_AT_ONCE = 10_000
_MOST_PREVIEWS = 100


class PickedLetters(msgspec.Struct, frozen=True):
    """A page of ids, and whether there are more."""

    ids: list[JobId]
    more: bool


class ResolvedMany(msgspec.Struct, frozen=True):
    """How many dead letters were found and resolved, and why the others were not.

    `next_cursor` is where to continue; None means that nothing was left.
    """

    found: int = 0
    done: int = 0
    refused: dict[JobId, str] = {}
    next_cursor: JobId | None = None

    def plus(self, picked: PickedLetters, resolved: Resolved) -> ResolvedMany:
        """Add the result of a page."""
        return ResolvedMany(
            self.found + len(picked.ids),
            self.done + len(resolved.done),
            self.refused | resolved.refused,
            picked.ids[-1] if picked.more else None,
        )


def pick(
    where: DeadFilter, so_far: ResolvedMany, *, limit: int, count: bool = False
) -> Operation[PickedLetters]:
    """Find the next page of unresolved dead letters, to be resolved or only to be counted."""
    whole("limit", limit, 1, _MOST)
    size = min(_COUNTED_AT_ONCE if count else AT_ONCE, limit - so_far.found)
    rows = yield picking(where, {"above": so_far.next_cursor, "limit": size + 1})
    return PickedLetters([job_id for (job_id,) in rows[:size]], len(rows) > size)


def turn_of(place: int, every: timedelta) -> timedelta:
    """Return how long the job at this place is delayed, when one job is started per `every`."""
    delay = place * every
    if delay > LONGEST_DELAY:
        raise InvalidSetting(f"after {place} jobs the next would wait more than a year; raise the rate")
    return delay


def preview(
    where: DeadFilter, edit: Edit, successor_id: JobId, *, policies: Policies, limit: int = 5
) -> Operation[list[FixPreview]]:
    """Return what a fix would change in the newest dead letters; writes nothing."""
    whole("limit", limit, 1, _MOST_PREVIEWS)
    edit.check()
    page = yield from dead_letters.list_letters(where, limit=limit)
    return [_previewed(letter, edit, successor_id, policies) for letter in page.letters]


def preview_one(
    job_id: JobId, edit: Edit, successor_id: JobId, *, policies: Policies
) -> Operation[FixPreview]:
    """Return what a fix would change in one dead letter; raises JobNotFound and AlreadyResolved."""
    edit.check()
    letter = yield from dead_letters.get_unresolved(job_id)
    return _previewed(letter, edit, successor_id, policies)


def find_ids(prefix: str, limit: int = 2) -> Operation[list[JobId]]:
    """Find dead jobs by the beginning of their ids."""
    low, high = bounds_of(prefix)
    rows = yield Statement(
        "find_dead_ids", {"low": low, "high": high, "limit": whole("limit", limit, 1, 100)}
    )
    return [job_id for (job_id,) in rows]


def _previewed(letter: DeadLetter, edit: Edit, successor_id: JobId, policies: Policies) -> FixPreview:
    try:
        _, changes = dead_letters.planned(letter.job, edit, successor_id, policies)
    except OnwardError as error:
        return FixPreview(letter.job.id, None, str(error))
    return FixPreview(letter.job.id, changes, None)
