"""`onward audit`: list, export and verify the records of the audit."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from onward.cli.operator_options import AS_JSON, PLACE, find_job, open_client, with_options
from onward.cli.times import read_instant
from onward.cli.views.text import say, short, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.records.audit import AuditFilter, AuditRecord
    from onward.core.records.chain import AuditVerified, Fault

_FAULTS_SHOWN = 20
_LINKS_A_LINE = 100_000

_NARROWING = (
    click.option("--since", metavar="TIME", help="From this time on, such as 2026-01-31T18:00+01:00."),
    click.option("--until", metavar="TIME", help="Before this time."),
    click.option("--org", metavar="ORG", help="Only records of this org."),
    click.option("--event", metavar="EVENT", help="Only records of this event, such as job.deadlettered."),
    click.option("--job", "job_id", metavar="ID", help="Only records of this job."),
    click.option("--actor", metavar="TYPE:ID", help="Only records of this actor."),
)


@click.group("audit")
def command() -> None:
    """Read, export and verify the audit."""


@command.command("list")
@with_options(*_NARROWING)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most this many records."
)
@click.option("--cursor", metavar="CURSOR", help="Continue after the page that printed it.")
@click.option("--oldest", is_flag=True, help="Oldest first instead of newest first.")
@with_options(*AS_JSON, *PLACE)
def list_(
    *,
    limit: int,
    cursor: str | None,
    oldest: bool,
    as_json: bool,
    app: str | None,
    url: str | None,
    **narrow: Any,
) -> None:
    """List the records of the audit, the newest first."""
    with open_client(app, url) as client:
        page = client.audit.list(_filter(client, **narrow), limit=limit, cursor=cursor, oldest_first=oldest)
    if as_json:
        click.echo(shown_json(page))
        return
    for record in page:
        click.echo(_line(record))
    if page.next_cursor is not None:
        say(f"more: --cursor {page.next_cursor}", timed=False)


@command.command("export")
@with_options(*_NARROWING, *PLACE)
def export(*, app: str | None, url: str | None, **narrow: Any) -> None:
    """Print all matching records as JSON lines, the oldest first."""
    with open_client(app, url) as client:
        for record in client.audit.export(_filter(client, **narrow)):
            click.echo(shown_json(record))


@command.command("verify")
@click.option("--head", metavar="POSITION:LINK", help="The head that an earlier verification printed.")
@with_options(*AS_JSON, *PLACE)
def verify(*, head: str | None, as_json: bool, app: str | None, url: str | None) -> None:
    """Seal all unsealed rows, then compare every row with the chain; exit with 1 if there is a fault."""
    with open_client(app, url) as client:
        found = _verified(client, head)
    if as_json:
        shown = {
            "intact": found.intact,
            "links": found.links,
            "head": str(found.head),
            "faults": found.faults,
        }
        click.echo(shown_json(shown))
    else:
        for fault in found.faults[:_FAULTS_SHOWN]:
            say(_described(fault), timed=False)
        more = len(found.faults) - _FAULTS_SHOWN
        if more > 0:
            say(f"… and {more} more; --json lists all", timed=False)
        say(f"{'intact' if found.intact else 'NOT intact'}: {found.links} links", timed=False)
        click.echo(found.head)
    if not found.intact:
        sys.exit(1)


def _verified(client: Client, head: str | None) -> AuditVerified:
    """Verify the audit; print the progress of a long verification, one line per 100,000 links."""
    shown = 0
    for found in client.audit.verify_in_steps(head=head):
        if found.links >= shown + _LINKS_A_LINE:
            shown = found.links
            say(f"{found.links} of {found.total} links")
    return found


def _filter(
    client: Client,
    *,
    since: str | None,
    until: str | None,
    org: str | None,
    event: str | None,
    job_id: str | None,
    actor: str | None,
) -> AuditFilter:
    from onward.core.records.audit import AuditFilter

    kind, _, name = (actor or "").partition(":")
    return AuditFilter(
        since=read_instant("--since", since) if since else None,
        until=read_instant("--until", until) if until else None,
        org_id=org,
        event=event,
        job_id=find_job(client, job_id) if job_id else None,
        actor_type=kind or None,
        actor_id=name or None,
    )


def _line(record: AuditRecord) -> str:
    actor = ":".join(part for part in (record.actor_type, record.actor_id) if part)
    job = "" if record.job_id is None else f"{record.job_type} {short(record.job_id, stream=sys.stdout)}"
    detail = "" if record.detail is None else json.dumps(record.detail, ensure_ascii=False)
    parts = [f"{record.at.astimezone():%Y-%m-%d %H:%M:%S}", record.event, record.action, job, actor, detail]
    return clean("  ".join(part for part in parts if part))


def _described(fault: Fault) -> str:
    place = "" if fault.seq is None else f" seq {fault.seq}"
    return f"{fault.what}{place}: {fault.message}"
