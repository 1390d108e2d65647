"""Find the group or job that `onward dead` acts on, confirm the action, take it, and report its result.

A group or a job is named by the beginning of its fingerprint or id.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from onward.cli.views.text import say, short, shown_json
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean
from onward.errors import AlreadyResolved, InvalidSetting, JobNotFound, OnwardError

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.bulk import Bulk
    from onward.core.failures.dead_letter import DeadGroup, Resolution

_GROUP = re.compile(r"[0-9a-f]{1,12}|unknown")
_FINGERPRINT = re.compile(r"[0-9a-f]{12}|unknown")
_JOB = re.compile(r"[0-9a-f][0-9a-f-]{0,35}")
REFUSED = 4
"""The exit code if at least one job was refused."""

_AT_ONCE = 1000
_REFUSED_SHOWN = 20


class CantAsk(click.ClickException):
    """No terminal is there to ask; shown without the usage of the command."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error as one line."""
        click.echo(f"error: {self.message}", err=True, file=file)


class DeadTarget(NamedTuple):
    """A group or a job; empty if only the filter options choose the jobs."""

    group: DeadGroup | None = None
    job_id: str | None = None

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the group."""
        return None if self.group is None else self.group.fingerprint


def find_target(client: Client, name: str) -> DeadTarget:
    """Return the group or job that begins with `name`; raise JobNotFound, or InvalidSetting for several."""
    from onward.core.jobs.filters import JobFilter

    beginning = name.strip().lower()
    found = [DeadTarget(group=one) for one in _groups(client, beginning)]
    if _JOB.fullmatch(beginning):
        jobs = client.jobs.list(JobFilter(id=beginning, state="dead"), limit=2)
        found += [DeadTarget(job_id=job.id) for job in jobs]
    if not found:
        raise _nothing(client, name, beginning)
    if len(found) > 1:
        names = ", ".join(one.job_id or str(one.fingerprint) for one in found)
        raise InvalidSetting(f"{name!r:.80} is the beginning of several: {names}; give more characters")
    return found[0]


def resolved(became: Resolution) -> str:
    """Return how, when and by which actor a death was resolved: `was replayed 3s ago by user:ada`."""
    actor = ":".join(part for part in (became.actor_type, became.actor_id) if part)
    ago = lasting(max(datetime.now(UTC) - became.at, timedelta()))
    successor = f", by job {became.successor_id}" if became.successor_id else ""
    return clean(f"was {became.resolution} {ago} ago{f' by {actor}' if actor else ''}{successor}")


def _nothing(client: Client, name: str, beginning: str) -> OnwardError:
    from onward.core.failures.dead_letter import DeadFilter
    from onward.core.jobs.filters import JobFilter

    # A name that fits nothing was not looked for: the tables may be missing.
    client.plan().check()
    jobs = [*client.jobs.list(JobFilter(id=beginning), limit=2)] if _JOB.fullmatch(beginning) else []
    if len(jobs) == 1:
        job = jobs[0]
        if deaths := client.dead.history(job.id).items:
            return AlreadyResolved(f"job {job.id} {resolved(deaths[-1])}, and is {job.state} now")
        return JobNotFound(f"job {job.id} is {job.state}, not dead; onward doctor {job.id} explains it")

    if _FINGERPRINT.fullmatch(beginning):
        for letter in client.dead.list(DeadFilter(resolved="yes", group=beginning), limit=1):
            return JobNotFound(
                f"all of group {beginning} is resolved; onward dead show {letter.job.id} shows the newest"
            )
    settled = "; a group that was replayed or discarded is resolved, and no group any more"
    return JobNotFound(
        f"no dead job and no unresolved group begins with {name!r:.80}"
        f"{settled if _GROUP.fullmatch(beginning) else ''}; onward dead list shows what is left"
    )


def _groups(client: Client, beginning: str) -> Sequence[DeadGroup]:
    from onward.core.failures.dead_letter import DeadFilter

    if not _GROUP.fullmatch(beginning):
        return []
    groups = client.dead.groups(DeadFilter(group=beginning), limit=2)
    return [one for one in groups if one.fingerprint == beginning] or groups.items


def confirmed(question: str, *, yes: bool) -> None:
    """Ask the user unless `yes` is set; end the command if the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CantAsk("can't ask for confirmation without a terminal; give --yes")
    if not click.confirm(question, err=True):
        say("nothing was done", timed=False)
        sys.exit(1)


def count_jobs(count: int) -> str:
    """Return a number of jobs in words."""
    return f"{count} job{'' if count == 1 else 's'}"


def page_by_page(act: Callable[..., Bulk], limit: int) -> Bulk:
    """Repeat a bulk call until nothing is left or `limit` is reached, and print the progress."""
    total = act(limit=min(_AT_ONCE, limit))
    while total.next_cursor is not None and total.found < limit:
        say(f"{total.done} done, {len(total.refused)} refused …")
        size = min(_AT_ONCE, limit - total.found)
        total = total.joined(act(limit=size, cursor=total.next_cursor))
    return total


def report(
    answer: Bulk, done: str, as_json: bool, *, dry_run: bool = False, successor: str | None = None
) -> None:
    """Print the result of an action; end with exit code 4 if a job was refused."""
    from onward.core.plain import plain

    jobs = count_jobs(answer.found if dry_run else answer.done)
    if as_json:
        click.echo(shown_json({**plain(answer), "dry_run": dry_run}))
    else:
        click.echo(
            f"{jobs} would be {done}" if dry_run else f"{jobs} {done}{f' → {successor}' if successor else ''}"
        )
        if answer.next_cursor is not None:
            say("there are more: run the command again, or give a higher --limit", timed=False)
    if answer.refused:
        _show_refused(answer.refused, as_json)


def _show_refused(refused: Mapping[str, str], as_json: bool) -> NoReturn:
    if not as_json:
        for job_id, why in list(refused.items())[:_REFUSED_SHOWN]:
            say(f"refused {short(job_id)}: {clean(why)}", timed=False)
        if len(refused) > _REFUSED_SHOWN:
            say(f"… and {len(refused) - _REFUSED_SHOWN} more; --json lists all", timed=False)
    sys.exit(REFUSED)
