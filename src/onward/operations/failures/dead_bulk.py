"""Bulk changes of dead letters: found page by page, oldest job first, and previews of fixes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from onward.core.bulk import Bulk
from onward.core.failures.dead_letter import DeadFilter, DeadLetter, Edit, FixPreview
from onward.core.inputs.checks import whole_number
from onward.core.jobs.ids import JobId
from onward.core.page import Page
from onward.core.policy.policies import Policies
from onward.core.work.retry import LONGEST_DELAY
from onward.errors import AlreadyResolved, InvalidJob, InvalidSetting, JobNotFound, OnwardError
from onward.operations.failures import dead_letters
from onward.operations.failures.dead_filter import picking, unresolved
from onward.operations.statement import Operation
from onward.operations.walk import Act, Range, Step, Walk, count, page_by_page

AT_ONCE = 200
"""At most this many are resolved in one transaction."""

MOST_PREVIEWS = 100
"""At most this many fixes are previewed by one call."""

_REFUSALS = (AlreadyResolved, InvalidJob, InvalidSetting, JobNotFound)


def replay(
    where: DeadFilter,
    covered: Range,
    policies: Policies,
    *,
    reason: str,
    reset_attempts: bool,
    every: timedelta,
    dry_run: bool,
) -> Walk[Bulk]:
    """Replay dead letters, each due `every` later than the one before."""

    def act(ids: list[JobId], done: int) -> Walk[Bulk]:
        # The delay counts from the clock of each page. That clock only moves forward, so the rate is never
        # exceeded.
        delay = delay_of(done, every)
        answer: Bulk = yield Step(
            partial(
                dead_letters.replay,
                ids,
                reason=reason,
                policies=policies,
                reset_attempts=reset_attempts,
                delay=delay,
                every=every,
            )
        )
        return answer

    return _resolve(where, covered, act, dry_run=dry_run)


def discard(
    where: DeadFilter, covered: Range, policies: Policies, *, reason: str, dry_run: bool
) -> Walk[Bulk]:
    """Discard dead letters."""

    def act(ids: list[JobId], _done: int) -> Walk[Bulk]:
        answer: Bulk = yield Step(
            partial(dead_letters.discard, ids, reason=reason, policies=policies), atomic=True
        )
        return answer

    return _resolve(where, covered, act, dry_run=dry_run)


def fix(
    where: DeadFilter,
    edit: Edit,
    covered: Range,
    policies: Policies,
    *,
    reason: str,
    make_id: Callable[[], JobId],
    dry_run: bool,
) -> Walk[Bulk]:
    """Fix dead letters by one edit, each in a transaction of its own."""
    if edit.payload is not None:
        raise InvalidSetting(
            "payload would replace the payloads of all jobs by the same one; give patch= instead"
        )
    edit.check()

    def act(ids: list[JobId], _done: int) -> Walk[Bulk]:
        refused: dict[JobId, str] = {}
        for job_id in ids:
            make = partial(dead_letters.fix, job_id, edit, make_id(), reason=reason, policies=policies)
            try:
                yield Step(make, atomic=True)
            except _REFUSALS as error:
                refused[job_id] = str(error)
        return Bulk(done=len(ids) - len(refused), refused=refused)

    return _resolve(where, covered, act, dry_run=dry_run)


def _resolve(where: DeadFilter, covered: Range, act: Act, *, dry_run: bool) -> Walk[Bulk]:
    pick = partial(pick_letters, where)
    return count(covered, pick) if dry_run else page_by_page(covered, pick, act, at_once=AT_ONCE)


def pick_letters(where: DeadFilter, after: JobId | None, limit: int) -> Operation[list[JobId]]:
    """Find the next unresolved dead letters, oldest job first."""
    rows = yield picking({**unresolved(where), "above": after, "limit": limit})
    return [job_id for (job_id,) in rows]


def delay_of(place: int, every: timedelta) -> timedelta:
    """Return how long the job at this place is delayed, when one job is started per `every`."""
    delay = place * every
    if delay > LONGEST_DELAY:
        raise InvalidSetting(f"job {place + 1} would wait more than a year at this rate; give a higher rate")
    return delay


def preview(
    where: DeadFilter, edit: Edit, successor_id: JobId, *, policies: Policies, limit: int = 5
) -> Operation[Page[FixPreview]]:
    """Return what a fix would change in the newest dead letters; writes nothing."""
    whole_number("limit", limit, 1, MOST_PREVIEWS)
    edit.check()
    unresolved(where)
    letters = yield from dead_letters.list_letters(where, limit=limit)
    return Page([_previewed(letter, edit, successor_id, policies) for letter in letters])


def preview_one(
    job_id: JobId, edit: Edit, successor_id: JobId, *, policies: Policies
) -> Operation[FixPreview]:
    """Return what a fix would change in one dead letter; raises JobNotFound and AlreadyResolved."""
    edit.check()
    letter = yield from dead_letters.get_unresolved(job_id)
    return _previewed(letter, edit, successor_id, policies)


def _previewed(letter: DeadLetter, edit: Edit, successor_id: JobId, policies: Policies) -> FixPreview:
    try:
        _, changes = dead_letters.planned(letter.job, edit, successor_id, policies)
    except OnwardError as error:
        return FixPreview(letter.job.id, None, str(error))
    return FixPreview(letter.job.id, changes, None)
