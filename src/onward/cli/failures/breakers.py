"""`onward breakers`: list the circuit breakers of providers, and open or close one by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

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
from onward.cli.times import read_instant, read_length
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.failures.breaker import Breaker

_REASON = (click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit."),)


@click.group("breakers")
def command() -> None:
    """See the circuit breakers of providers, and open or close them."""


@command.command("list")
@with_options(*page_options(1000), *AS_JSON, *PLACE)
def list_(*, limit: int, cursor: str | None, as_json: bool, app: str | None, url: str | None) -> None:
    """List the breakers of providers that have pushed back, and those opened by hand."""
    with open_client(app, url) as client:
        page = client.breakers.list(limit=limit, cursor=cursor)
    if as_json:
        click.echo(shown_json(page))
        return
    for breaker in page:
        click.echo(_line(breaker))
    if not page:
        say("no provider has ever pushed back, and no breaker was opened by hand", timed=False)
    say_more(page)


@command.command("open")
@click.argument("name")
@with_options(*_REASON)
@click.option("--for", "for_", metavar="TIME", help="For this long, such as 10m; else until it is closed.")
@click.option("--until", metavar="TIME", help="Until this time, such as 2026-01-31T18:00+01:00.")
@with_options(*ACTOR, *PLACE)
def open_(
    *,
    name: str,
    reason: str,
    for_: str | None,
    until: str | None,
    actor: str | None,
    app: str | None,
    url: str | None,
) -> None:
    """Hold the jobs of the provider NAME; the breaker of a queue is queue:NAME."""
    with open_operator(app, url, actor) as client:
        opened = client.breakers.open(
            name,
            reason=reason,
            for_=read_length("--for", for_) if for_ else None,
            until=read_instant("--until", until) if until else None,
        )
    say(_line(opened), timed=False)


@command.command("close")
@click.argument("name")
@with_options(*_REASON, *ACTOR, *PLACE)
def close(*, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Let the jobs of the provider NAME run again, one at first.

    Exits with 1 if no jobs were held and no failures were counted.
    """
    with open_operator(app, url, actor) as client:
        changed = client.breakers.close(name, reason=reason)
    shown = clean(name)
    say(f"{shown} is closed" if changed else f"{shown}: nothing was held or counted", timed=False)
    if not changed:
        sys.exit(1)


def _line(breaker: Breaker) -> str:
    actor = ":".join(part for part in (breaker.actor_type, breaker.actor_id) if part)
    until = "" if breaker.until is None else f"until {breaker.until.astimezone():%Y-%m-%d %H:%M:%S}"
    forced = "by hand" if breaker.forced else ""
    failures = f"{breaker.failures} counted" if breaker.failures else ""
    parts = [breaker.name, breaker.state, forced, until, failures, actor, breaker.reason]
    return clean("  ".join(part for part in parts if part))
