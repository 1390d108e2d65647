"""Find the group or job that `onward dead` acts on, confirm the action, and report its result.

A group or a job is named by the beginning of its fingerprint or id.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from onward.cli.views.text import say, short, shown_json
from onward.core.inputs.plain_text import one_line as clean
from onward.errors import InvalidSetting, JobNotFound

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.failures.dead_letter import DeadGroup, Resolved
    from onward.operations.failures.dead_bulk import ResolvedMany

_GROUP = re.compile(r"[0-9a-f]{1,12}|unknown")
_WHOLE = re.compile(r"[0-9a-f]{12}|unknown")
_JOB = re.compile(r"[0-9a-f][0-9a-f-]{0,35}")
REFUSED = 4
"""The exit code if at least one job was refused."""

_REFUSED_SHOWN = 20


class DeadTarget(NamedTuple):
    """A group or a job; empty if only the filter options choose the jobs."""

    group: DeadGroup | None = None
    job_id: str | None = None

    @property
    def where(self) -> dict[str, Any]:
        """The filter that selects the group; empty without a group."""
        return {} if self.group is None else {"group": self.group.fingerprint}

    def counted(self) -> ResolvedMany:
        """Return the result of a dry run on a single job."""
        from onward.operations.failures.dead_bulk import ResolvedMany

        return ResolvedMany(found=1)


def find_target(client: Client, name: str) -> DeadTarget:
    """Return the group or job that begins with `name`; raise JobNotFound, or InvalidSetting for several."""
    asked = name.strip().lower()
    found = [DeadTarget(group=one) for one in _groups(client, asked)]
    if _JOB.fullmatch(asked):
        found += [DeadTarget(job_id=job_id) for job_id in client.dead.find(asked)]
    if not found:
        raise _nothing(client, name, asked)
    if len(found) > 1:
        names = ", ".join(one.job_id or one.where["group"] for one in found)
        raise InvalidSetting(f"{name!r:.80} begins more than one: {names}; give more of it")
    return found[0]


def _nothing(client: Client, name: str, asked: str) -> JobNotFound:
    resolved = (
        client.dead.list(resolved=True, group=asked, limit=1).letters if _WHOLE.fullmatch(asked) else ()
    )
    if resolved:
        newest = resolved[0].job.id
        return JobNotFound(f"all of group {asked} is resolved; onward dead show {newest} tells of the newest")
    return JobNotFound(
        f"no dead job, and no group with dead jobs that wait for somebody, begins with {name!r:.80}; "
        "onward dead list"
    )


def _groups(client: Client, asked: str) -> list[DeadGroup]:
    if not _GROUP.fullmatch(asked):
        return []
    groups = client.dead.groups(group=asked, limit=2).groups
    return [one for one in groups if one.fingerprint == asked] or groups


def confirmed(question: str, *, yes: bool) -> None:
    """Ask the user unless `yes` is set; end the command if the answer is no."""
    if yes:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("there is nobody to ask; give --yes") from None
    if not agreed:
        say("nothing was done", timed=False)
        sys.exit(1)


def report(
    answer: ResolvedMany | Resolved,
    done: str,
    as_json: bool,
    *,
    dry_run: bool = False,
    successor: str | None = None,
) -> None:
    """Print the result of an action; end with exit code 4 if a job was refused."""
    from onward.core.failures.dead_letter import Resolved

    count = len(answer.done) if isinstance(answer, Resolved) else answer.done
    found = count + len(answer.refused) if isinstance(answer, Resolved) else answer.found
    cursor = None if isinstance(answer, Resolved) else answer.next_cursor
    if as_json:
        shown = {"found": found, "done": count, "refused": answer.refused, "next_cursor": cursor}
        click.echo(shown_json({**shown, "dry_run": dry_run}))
    elif dry_run:
        click.echo(f"{found} job{'' if found == 1 else 's'} would be {done}")
    else:
        click.echo(f"{count} job{'' if count == 1 else 's'} {done}{f' → {successor}' if successor else ''}")
    if cursor is not None and not as_json:
        say("there are more: the same command goes on, or give a higher --limit", timed=False)
    if answer.refused:
        _tell_refused(answer.refused, as_json)


def _tell_refused(refused: dict[str, str], as_json: bool) -> NoReturn:
    if not as_json:
        for job_id, why in list(refused.items())[:_REFUSED_SHOWN]:
            say(f"refused {short(job_id)}: {clean(why)}", timed=False)
        if len(refused) > _REFUSED_SHOWN:
            say(f"… and {len(refused) - _REFUSED_SHOWN} more; --json has them", timed=False)
    sys.exit(REFUSED)
