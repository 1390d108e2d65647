"""`onward alerts`: list alerts, mute and unmute them, and test the sinks of an app."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from onward.cli.find_app import load_app
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
from onward.cli.times import read_length
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.bulk import Changed
    from onward.core.failures.alert import GroupedAlert

_LONGEST = 200


@click.group("alerts")
def command() -> None:
    """List, mute and unmute alerts, and test the sinks of an app."""


@command.command("list")
@click.option("--kind", metavar="KIND", help="Only alerts of this kind, such as job_dead.")
@with_options(*page_options(50), *AS_JSON, *PLACE)
def list_(
    *, kind: str | None, limit: int, cursor: str | None, as_json: bool, app: str | None, url: str | None
) -> None:
    """List alerts, the most recent first."""
    with open_client(app, url) as client:
        page = client.alerts.list(kind=kind, limit=limit, cursor=cursor)
    if as_json:
        click.echo(shown_json(page))
        return
    for alert in page:
        click.echo(_line(alert))
        for send in alert.waiting:
            state = "given up" if send.next_at is None else f"tried {_often(send.tries)}"
            error = f": {send.error}" if send.error else ""
            click.echo(f"  {clean(f'{send.sink}: {state}{error}', _LONGEST)}")
    if not page:
        say("no alerts", timed=False)
    say_more(page)


@command.command("mute")
@click.argument("fingerprint")
@click.option(
    "--reason", required=True, metavar="TEXT", help="The reason; kept with the alert and in the audit."
)
@click.option(
    "--for", "for_", metavar="TIME", help="For this long, such as 8h or 7d; else until it is unmuted."
)
@with_options(*ACTOR, *PLACE)
def mute(
    *, fingerprint: str, reason: str, for_: str | None, actor: str | None, app: str | None, url: str | None
) -> None:
    """Mute an alert: it is still counted, but sent to no sink."""
    length = None if for_ is None else read_length("--for", for_)
    with open_operator(app, url, actor) as client:
        changed = client.alerts.mute(fingerprint, reason=reason, for_=length)
    _answer(fingerprint, "muted", changed)


@command.command("unmute")
@click.argument("fingerprint")
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def unmute(
    *, fingerprint: str, reason: str | None, actor: str | None, app: str | None, url: str | None
) -> None:
    """Unmute an alert: it is sent again from its next occurrence on."""
    with open_operator(app, url, actor) as client:
        changed = client.alerts.unmute(fingerprint, reason=reason)
    _answer(fingerprint, "unmuted", changed)


@command.command("test")
@click.argument("app")
def test(*, app: str) -> None:
    """Send a test alert to each sink of APP and print the results; exit with 1 if a sink failed."""
    from onward.core.failures.alert import error_text, sample

    policies = load_app(app).policies
    if not policies.registry.sinks:
        say("the app has no sinks; add one: Onward(alerts=[LogSink()])", timed=False)
    failed = False
    now = datetime.now(UTC)
    for sink in policies.registry.sinks:
        try:
            sink.send(sample(f"test.{int(now.timestamp() * 1000)}", now))
        except Exception as error:  # noqa: BLE001 - whatever a sink may raise
            failed = True
            click.echo(clean(f"✗ {sink.name}: {error_text(error, policies.settings.redact)}"))
        else:
            click.echo(clean(f"✓ {sink.name}"))
    if failed:
        sys.exit(1)


def _answer(fingerprint: str, what: str, changed: Changed) -> None:
    if not changed:
        advice = "onward alerts list shows them" if what == "muted" else "it was not muted"
        say(f"nothing {what}: {clean(fingerprint)}; {advice}", timed=False)
        sys.exit(1)
    say(f"{what}: {clean(fingerprint)}", timed=False)


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _line(alert: GroupedAlert) -> str:
    state = "muted" if alert.muted_at else "resolved" if alert.resolved_at else ""
    until = f" until {alert.muted_until.astimezone():%Y-%m-%d %H:%M}" if alert.muted_until else ""
    last = f"{alert.last_at.astimezone():%Y-%m-%d %H:%M:%S}"
    parts = [last, alert.fingerprint, alert.kind, _often(alert.count), alert.title, f"{state}{until}"]
    return clean("  ".join(part for part in parts if part), _LONGEST)
