"""`onward limits`: show which jobs hold permits or wait for one, and override limits by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import ACTOR, AS_JSON, PLACE, open_client, open_operator, with_options
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.limits.limit_use import KeySeen, LimitSeen

_REASON = (click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit."),)


@click.group("limits")
def command() -> None:
    """See the limits of jobs that share a resource, and override them."""


@command.command("list")
@with_options(*AS_JSON, *PLACE)
def list_(*, as_json: bool, app: str | None, url: str | None) -> None:
    """List the limits that workers have declared, and how many jobs hold a permit or wait for one."""
    with open_client(app, url) as client:
        found = client.limits.list()
    if as_json:
        click.echo(shown_json(found))
        return
    for limit in found:
        click.echo(_line(limit))
    if not found:
        say("no worker has declared a limit", timed=False)


@command.command("show")
@click.argument("name")
@with_options(*AS_JSON, *PLACE)
def show(*, name: str, as_json: bool, app: str | None, url: str | None) -> None:
    """Show the limit NAME and its busiest keys."""
    with open_client(app, url) as client:
        limit = client.limits.get(name)
    if as_json:
        click.echo(shown_json(limit))
        return
    click.echo(_line(limit))
    for key in limit.keys:
        click.echo(_key_line(key))


@command.command("set")
@click.argument("name")
@click.option("--concurrency", type=int, metavar="N", help="At most this many active jobs of a key.")
@click.option(
    "--rate", metavar="N/TIME", help="At most this many starts of a key in a period, such as 10/1m."
)
@click.option("--burst", type=int, metavar="N", help="At most this many of those starts at once.")
@with_options(*_REASON, *ACTOR, *PLACE)
def set_(
    *,
    name: str,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    reason: str,
    actor: str | None,
    app: str | None,
    url: str | None,
) -> None:
    """Override what the application declares for the limit NAME; running jobs continue."""
    if concurrency is None and rate is None and burst is None:
        raise click.UsageError("no bound was given; give --concurrency, --rate or --burst")
    with open_operator(app, url, actor) as client:
        limit = client.limits.set(name, concurrency=concurrency, rate=rate, burst=burst, reason=reason)
    say(_line(limit), timed=False)


@command.command("reset")
@click.argument("name")
@with_options(*_REASON, *ACTOR, *PLACE)
def reset(*, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Return the limit NAME to what the application declares; exit with 1 if there was no override."""
    with open_operator(app, url, actor) as client:
        changed = client.limits.reset(name, reason=reason)
    shown = clean(name)
    say(f"{shown} is as declared" if changed else f"{shown}: nothing was set", timed=False)
    if not changed:
        sys.exit(1)


def _line(limit: LimitSeen) -> str:
    terms = limit.terms
    parts = [
        None if terms.permits is None else f"{terms.permits} at once",
        None if terms.rate is None else f"{terms.rate}, {terms.at_once} at once",
        "in order" if terms.ordered else None,
        f"{limit.active} active",
        f"{limit.waiting} waiting",
    ]
    actor = ":".join(part for part in (limit.actor_type, limit.actor_id) if part)
    by_hand = ["by hand", actor, limit.reason] if limit.override is not None else []
    return clean("  ".join(part for part in [limit.name, *parts, *by_hand] if part))


def _key_line(key: KeySeen) -> str:
    return clean(f"{key.key}  {key.active} active  {key.waiting} waiting")
