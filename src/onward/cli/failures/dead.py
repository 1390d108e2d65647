"""`onward dead`: show dead jobs grouped by their error, and replay, discard or fix them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from onward.cli.failures.dead_lines import (
    group_lines,
    group_table,
    letter_lines,
    letter_table,
    say_preview,
)
from onward.cli.failures.dead_target import REFUSED, DeadTarget, confirmed, find_target, report
from onward.cli.operator_options import AS_JSON, PLACE, WHO, given, open_client, open_operator
from onward.cli.views.text import say, shown_json

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.operations.failures.dead_bulk import ResolvedMany

_SHOWN = 5

_NARROWING = (
    click.option("--type", "job_type", metavar="TYPE", help="Only jobs of this type."),
    click.option("--org", "org_id", metavar="ORG", help="Only jobs of this org."),
    click.option("--class", "error_class", metavar="CLASS", help="Only those of this error class."),
)
_SUBJECT = (click.option("--subject", metavar="SUBJECT", help="Only jobs about this."),)
_PAGE = (
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="So many."),
    click.option("--cursor", metavar="ID", help="Go on after this one."),
)
_MANY = (
    click.option(
        "--all", "all_", is_flag=True, help="All that the options above leave, not a group or a job."
    ),
    click.option(
        "--limit", type=click.IntRange(1), default=10_000, show_default=True, help="At most so many."
    ),
    click.option("--dry-run", is_flag=True, help="Only count."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)
_REASON = (click.option("--reason", required=True, metavar="TEXT", help="Why; kept in the audit."),)
_NAME = (click.argument("name", metavar="GROUP|JOB", required=False),)


@click.group("dead")
def command() -> None:
    """Look at dead jobs; replay, discard or fix them."""


@command.command("list")
@given(*_NARROWING)
@click.option("--group", metavar="GROUP", help="The jobs of this group, instead of the groups.")
@click.option("--jobs", is_flag=True, help="The jobs instead of their groups.")
@given(*_PAGE, *AS_JSON, *PLACE)
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
    from onward.core.plain import plain

    with open_client(app, url) as client:
        if jobs or group:
            named = find_target(client, group).where if group else {}
            if group and not named:
                raise click.UsageError("--group is a job; onward dead show tells of one")
            letters = client.dead.list(limit=limit, cursor=cursor, **where, **named)
            shown: dict[str, Any] = {"jobs": plain(letters.letters, client.policies.settings.redact)}
            lines, next_cursor = letter_table(letters.letters), letters.next_cursor
        else:
            groups = client.dead.groups(limit=limit, cursor=cursor, **where)
            shown = {"groups": groups.groups}
            lines, next_cursor = group_table(groups.groups), groups.next_cursor
    if as_json:
        click.echo(shown_json({**shown, "next_cursor": next_cursor}))
        return
    for line in lines:
        click.echo(line)
    if not lines:
        say("no dead letters", timed=False)
    if next_cursor is not None:
        say(f"more: --cursor {next_cursor}", timed=False)


@command.command("show")
@click.argument("name", metavar="GROUP|JOB")
@given(*AS_JSON, *PLACE)
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
@given(*_NAME, *_NARROWING, *_SUBJECT)
@click.option("--rate", metavar="RATE", help="Have them due one after another, such as 10/s or 90/m.")
@click.option("--keep-attempts", is_flag=True, help="Give each one more attempt instead of all.")
@given(*_MANY, *_REASON, *WHO, *AS_JSON, *PLACE)
def replay(*, rate: str | None, keep_attempts: bool, reason: str, **options: Any) -> None:
    """Run dead jobs again under their own ids."""

    def one(client: Client, job_id: str) -> Any:
        return client.dead.replay([job_id], reason=reason, reset_attempts=not keep_attempts)

    def many(client: Client, **rest: Any) -> ResolvedMany:
        return client.dead.replay_all(reason=reason, rate=rate, reset_attempts=not keep_attempts, **rest)

    _resolve("replay", "replayed", one, many, **options)


@command.command("discard")
@given(*_NAME, *_NARROWING, *_SUBJECT, *_MANY, *_REASON, *WHO, *AS_JSON, *PLACE)
def discard(*, reason: str, **options: Any) -> None:
    """Leave jobs dead permanently; their rows are kept."""

    def one(client: Client, job_id: str) -> Any:
        return client.dead.discard([job_id], reason=reason)

    def many(client: Client, **rest: Any) -> ResolvedMany:
        return client.dead.discard_all(reason=reason, **rest)

    _resolve("discard", "discarded", one, many, **options)


@command.command("fix")
@click.argument("name", metavar="GROUP|JOB")
@click.option("--patch", metavar="JSON|@FILE|-", help="What to change of the payload; null removes.")
@click.option("--payload", metavar="JSON|@FILE|-", help="The whole payload, of a single job.")
@click.option("--queue", metavar="QUEUE", help="Another queue.")
@click.option("--priority", type=int, help="Another priority.")
@click.option("--max-attempts", type=int, help="Another number of attempts.")
@click.option("--note", "--reason", "note", required=True, metavar="TEXT", help="Why; kept in the audit.")
@click.option("--limit", type=click.IntRange(1), default=10_000, show_default=True, help="At most so many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given(*WHO, *AS_JSON, *PLACE)
def fix(
    *,
    name: str,
    note: str,
    limit: int,
    yes: bool,
    actor: str | None,
    as_json: bool,
    app: str | None,
    url: str | None,
    **texts: Any,
) -> None:
    """Enqueue edited copies of a dead job or a group; open $EDITOR for a job if no change is given."""
    with open_operator(app, url, actor) as client:
        target = find_target(client, name)
        edit = _edit(client, target, **texts)
        if target.job_id is not None:
            _show_diff(client.dead.preview(target.job_id, **edit), required=True)
            confirmed("Enqueue this copy?", yes=yes)
            letter = client.dead.fix(target.job_id, note=note, **edit)
            shown = shown_json(letter, client.policies.settings.redact)
            click.echo(shown if as_json else f"1 job fixed → {letter.successor_id}")
            return
        if "payload" in edit:
            raise click.UsageError("a whole payload fixes one job; give --patch for a group")
        _show_diff(client.dead.preview(limit=_SHOWN, **target.where, **edit))
        count = client.dead.fix_all(limit=limit, dry_run=True, **target.where, note=note, **edit).found
        confirmed(f"Fix {_jobs(count)}?", yes=yes)
        done = client.dead.fix_all(limit=limit, progress=_tell, **target.where, note=note, **edit)
        report(done, "fixed", as_json, successor=_successor(client, target) if done.done == 1 else None)


def _resolve(
    verb: str,
    done: str,
    one: Any,
    many: Any,
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
    narrowed = {key: value for key, value in where.items() if value is not None}
    if name is not None and all_:
        raise click.UsageError("give a group or a job, or --all")
    if name is None and not (narrowed or all_):
        raise click.UsageError("which ones? give a group or a job, an option such as --type, or --all")
    with open_operator(app, url, actor) as client:
        target = DeadTarget() if name is None else find_target(client, name)
        if target.job_id is not None:
            if narrowed:
                raise click.UsageError("a single job is not narrowed any further")
            confirmed(f"{verb.capitalize()} 1 job?", yes=yes or dry_run)
            report(
                target.counted() if dry_run else one(client, target.job_id), done, as_json, dry_run=dry_run
            )
            return
        where = {**narrowed, **target.where}
        found = many(client, limit=limit, dry_run=True, **where)
        if dry_run or not found.found:
            report(found, done, as_json, dry_run=dry_run)
            return
        confirmed(f"{verb.capitalize()} {_jobs(found.found)}?", yes=yes)
        report(many(client, limit=limit, progress=_tell, **where), done, as_json)


def _edit(client: Client, target: DeadTarget, **texts: Any) -> dict[str, Any]:
    """Return the changes to make, from the options or, for a single job, from an editor."""
    from onward.cli.jobs.payload_argument import read_payload

    edit = {name: value for name, value in texts.items() if value is not None}
    for name in {"patch", "payload"} & set(edit):
        edit[name] = read_payload(edit[name], f"--{name}")
    if edit:
        return edit
    if target.job_id is None:
        raise click.UsageError("what is to be changed in this group? give --patch, --queue or --priority")
    import json

    before = client.jobs.get(target.job_id).payload
    after = click.edit(json.dumps(before, ensure_ascii=False, indent=2) + "\n", extension=".json")
    if after is None:
        say("refused: nothing was changed in the editor", timed=False)
        sys.exit(REFUSED)
    return {"payload": read_payload(after, "what the editor left")}


def _successor(client: Client, target: DeadTarget) -> str | None:
    """Return the id of the copy that replaces the only job of a group."""
    return None if target.group is None else client.dead.get(target.group.latest).successor_id


def _show_diff(previews: Any, *, required: bool = False) -> None:
    for preview in previews:
        say_preview(preview)
        if required and preview.refused is not None:
            sys.exit(REFUSED)


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _tell(so_far: ResolvedMany) -> None:
    if so_far.next_cursor is not None:
        say(f"{so_far.done} done, {len(so_far.refused)} refused …")
