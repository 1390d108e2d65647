"""`onward dead`: show dead jobs grouped by their error, and replay, discard or fix them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from onward.cli.failures.dead_lines import (
    group_lines,
    group_table,
    letter_lines,
    letter_table,
    say_preview,
)
from onward.cli.failures.dead_target import (
    REFUSED,
    DeadTarget,
    confirmed,
    count_jobs,
    find_target,
    page_by_page,
    report,
    resolved,
)
from onward.cli.operator_options import (
    ACTOR,
    AS_JSON,
    PLACE,
    open_client,
    open_operator,
    page_options,
    say_more,
    with_options,
)
from onward.cli.views.text import say, shown_json

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.bulk import Bulk
    from onward.core.failures.dead_letter import DeadFilter, Edit
    from onward.core.page import Page

_SHOWN = 5

_NARROWING = (
    click.option("--type", "job_type", metavar="TYPE", help="Only jobs of this type."),
    click.option("--org", "org_id", metavar="ORG", help="Only jobs of this org."),
    click.option("--class", "error_class", metavar="CLASS", help="Only jobs that died of this error class."),
)
_SUBJECT = (click.option("--subject", metavar="SUBJECT", help="Only jobs of this subject."),)
_LIMIT = (
    click.option(
        "--limit",
        type=click.IntRange(1, 1_000_000),
        default=10_000,
        show_default=True,
        help="At most this many jobs.",
    ),
)
_YES = (click.option("--yes", is_flag=True, help="Do not ask for confirmation."),)
_MANY = (
    click.option("--all", "all_", is_flag=True, help="All jobs that match the options above."),
    *_LIMIT,
    click.option("--dry-run", is_flag=True, help="Only count the jobs."),
    *_YES,
)
_REASON = (click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit."),)
_NAME = (click.argument("name", metavar="GROUP|JOB", required=False),)


@click.group("dead")
def command() -> None:
    """Look at dead jobs; replay, discard or fix them."""


@command.command("list")
@with_options(*_NARROWING)
@click.option("--group", metavar="GROUP", help="List the jobs of this group instead of the groups.")
@click.option("--jobs", is_flag=True, help="List jobs instead of groups.")
@with_options(*page_options(50, most=200), *AS_JSON, *PLACE)
def list_(
    *,
    group: str | None,
    jobs: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
    app: str | None,
    url: str | None,
    **where: Any,
) -> None:
    """List unresolved dead jobs, grouped by the error that they died of, the newest first."""
    from onward.core.failures.dead_letter import DeadFilter

    page: Page[Any]
    with open_client(app, url) as client:
        if jobs or group:
            fingerprint = find_target(client, group).fingerprint if group else None
            if group and fingerprint is None:
                raise click.UsageError("--group is the id of a job; show the job with onward dead show")
            page = client.dead.list(DeadFilter(group=fingerprint, **where), limit=limit, cursor=cursor)
            lines = letter_table(page.items)
        else:
            page = client.dead.groups(DeadFilter(**where), limit=limit, cursor=cursor)
            lines = group_table(page.items)
        redaction = client.policies.settings.redact
    if as_json:
        click.echo(shown_json(page, redaction))
        return
    for line in lines:
        click.echo(line)
    if not lines:
        say("no dead letters", timed=False)
    say_more(page)


@command.command("show")
@click.argument("name", metavar="GROUP|JOB")
@with_options(*AS_JSON, *PLACE)
def show(*, name: str, as_json: bool, app: str | None, url: str | None) -> None:
    """Show a group, or a dead job and how it was resolved."""
    from onward.core.plain import plain

    with open_client(app, url) as client:
        target = find_target(client, name)
        if target.group is not None:
            shown, lines = plain(target.group), group_lines(target.group)
        else:
            letter = client.dead.get(str(target.job_id))
            shown, lines = (
                plain(letter, client.policies.settings.redact),
                letter_lines(letter, client.policies),
            )
    if as_json:
        click.echo(shown_json(shown))
        return
    for line in lines:
        click.echo(line)


@command.command("replay")
@with_options(*_NAME, *_NARROWING, *_SUBJECT)
@click.option("--rate", metavar="RATE", help="Spread the jobs in time, such as 10/s or 90/m.")
@click.option(
    "--keep-attempts",
    is_flag=True,
    help="Allow each job one more attempt, instead of starting its count again.",
)
@with_options(*_MANY, *_REASON, *ACTOR, *AS_JSON, *PLACE)
def replay(*, rate: str | None, keep_attempts: bool, reason: str, **options: Any) -> None:
    """Run dead jobs again under their own ids."""
    how: dict[str, Any] = {"reason": reason, "reset_attempts": not keep_attempts}

    def one(client: Client, job_id: str) -> Bulk:
        return client.dead.replay([job_id], **how)

    def many(client: Client, where: DeadFilter, **pages: Any) -> Bulk:
        return client.dead.replay_where(where, rate=rate, **how, **pages)

    _resolve("replay", "replayed", one, many, **options)


@command.command("discard")
@with_options(*_NAME, *_NARROWING, *_SUBJECT, *_MANY, *_REASON, *ACTOR, *AS_JSON, *PLACE)
def discard(*, reason: str, **options: Any) -> None:
    """Leave jobs dead permanently; their rows are kept."""

    def one(client: Client, job_id: str) -> Bulk:
        return client.dead.discard([job_id], reason=reason)

    def many(client: Client, where: DeadFilter, **pages: Any) -> Bulk:
        return client.dead.discard_where(where, reason=reason, **pages)

    _resolve("discard", "discarded", one, many, **options)


@command.command("fix")
@click.argument("name", metavar="GROUP|JOB")
@click.option("--patch", metavar="JSON|@FILE|-", help="What to change in the payload; null removes a field.")
@click.option("--payload", metavar="JSON|@FILE|-", help="The new payload, of a single job.")
@click.option("--queue", metavar="QUEUE", help="The queue of the copy, instead of that of the dead job.")
@click.option("--priority", type=int, help="The priority of the copy.")
@click.option("--max-attempts", type=int, help="How many attempts the copy has.")
@with_options(*_LIMIT, *_YES, *_REASON, *ACTOR, *AS_JSON, *PLACE)
def fix(
    *,
    name: str,
    reason: str,
    limit: int,
    yes: bool,
    actor: str | None,
    as_json: bool,
    app: str | None,
    url: str | None,
    **texts: Any,
) -> None:
    """Enqueue edited copies of a dead job or a group; open $EDITOR for a job if no change is given."""
    from onward.core.failures.dead_letter import DeadFilter

    with open_operator(app, url, actor) as client:
        target = find_target(client, name)
        edit = _edit(client, target, **texts)
        if target.job_id is not None:
            preview = client.dead.preview(target.job_id, edit)
            say_preview(preview)
            if preview.refused is not None:
                sys.exit(REFUSED)
            confirmed("Enqueue this copy?", yes=yes)
            letter = client.dead.fix(target.job_id, edit, reason=reason)
            shown = shown_json(letter, client.policies.settings.redact)
            click.echo(shown if as_json else f"1 job fixed → {letter.successor_id}")
            return
        where = DeadFilter(group=target.fingerprint)
        for preview in client.dead.preview_where(where, edit, limit=_SHOWN):
            say_preview(preview)
        act = partial(client.dead.fix_where, where, edit, reason=reason)
        confirmed(f"Fix {count_jobs(act(limit=limit, dry_run=True).found)}?", yes=yes)
        answer = page_by_page(act, limit)
        report(answer, "fixed", as_json, successor=_successor(client, target) if answer.done == 1 else None)


def _resolve(
    verb: str,
    done: str,
    one: Callable[[Client, str], Bulk],
    many: Callable[..., Bulk],
    *,
    name: str | None,
    all_: bool,
    limit: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    actor: str | None,
    app: str | None,
    url: str | None,
    **where: Any,
) -> None:
    conditions = {key: value for key, value in where.items() if value is not None}
    if name is not None and all_:
        raise click.UsageError("a group or job and --all were both given; give one of them")
    if name is None and not (conditions or all_):
        raise click.UsageError(
            "no jobs were selected; give a group or a job, an option such as --type, or --all"
        )
    with open_operator(app, url, actor) as client:
        target = DeadTarget() if name is None else find_target(client, name)
        act = _act_on(client, target, one, many, conditions)
        found = act(limit=limit, dry_run=True)
        if dry_run or found.refused or not found.found:
            report(found, done, as_json, dry_run=dry_run)
            return
        confirmed(f"{verb.capitalize()} {count_jobs(found.found)}?", yes=yes)
        report(page_by_page(act, limit), done, as_json)


def _act_on(
    client: Client,
    target: DeadTarget,
    one: Callable[[Client, str], Bulk],
    many: Callable[..., Bulk],
    conditions: dict[str, Any],
) -> Callable[..., Bulk]:
    """Return the call that resolves the target, or with `dry_run` counts it."""
    from onward.core.bulk import Bulk
    from onward.core.failures.dead_letter import DeadFilter

    job_id = target.job_id
    if job_id is None:
        return partial(many, client, DeadFilter(group=target.fingerprint, **conditions))
    if conditions:
        raise click.UsageError("options that select jobs do not apply to a single job; leave them out")
    if (became := client.dead.get(job_id).resolution) is not None:
        refused = Bulk(found=1, refused={job_id: f"it {resolved(became)}"})
        return lambda **_: refused
    return lambda *, dry_run=False, **_: Bulk(found=1) if dry_run else one(client, job_id)


def _edit(client: Client, target: DeadTarget, **texts: Any) -> Edit:
    """Return the changes to make, from the options or, for a single job, from an editor."""
    from onward.cli.jobs.payload_argument import read_payload
    from onward.core.failures.dead_letter import Edit

    changes = {name: value for name, value in texts.items() if value is not None}
    if target.job_id is None and "payload" in changes:
        raise click.UsageError("--payload is for a single job; give --patch for a group")
    for name in {"patch", "payload"} & set(changes):
        changes[name] = read_payload(changes[name], f"--{name}")
    if changes:
        return Edit(**changes)
    if target.job_id is None:
        raise click.UsageError(
            "no change was given for this group; give --patch, --queue, --priority or --max-attempts"
        )
    if not sys.stdin.isatty():
        raise click.UsageError(
            "the standard input is no terminal, so no editor can be opened; give --patch or --payload"
        )
    import json

    before = client.jobs.get(target.job_id).payload
    after = click.edit(json.dumps(before, ensure_ascii=False, indent=2) + "\n", extension=".json")
    if after is None:
        say("refused: nothing was changed in the editor", timed=False)
        sys.exit(REFUSED)
    return Edit(payload=read_payload(after, "the text from the editor"))


def _successor(client: Client, target: DeadTarget) -> str | None:
    """Return the id of the copy that replaces the only job of a group."""
    return None if target.group is None else client.dead.get(target.group.latest).successor_id
