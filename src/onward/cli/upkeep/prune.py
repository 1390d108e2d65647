"""`onward prune`: remove rows past their retention now, instead of within the hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.failures.dead_target import confirmed
from onward.cli.operator_options import AS_JSON, PLACE, WHO, given, open_operator
from onward.cli.views.text import say, shown_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.clients.sync.client import Client

_A_LINE = 100_000


@click.command("prune")
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given(*AS_JSON, *WHO, *PLACE)
def command(
    *, dry_run: bool, yes: bool, as_json: bool, actor: str | None, app: str | None, url: str | None
) -> None:
    """Remove ended jobs and all other rows that are past the retention of the app."""
    with open_operator(app, url, actor) as client:
        if dry_run or not (yes or as_json):
            counted = client.maintenance.prune(dry_run=True)
            if dry_run and as_json:
                click.echo(shown_json({"counts": counted.counts, "more": counted.more}))
                return
            _show("would go", counted.counts, more=counted.more)
            if dry_run or not counted.counts:
                return
            confirmed("Remove them?", yes=False)
        removed = _prune(client)
    if as_json:
        click.echo(shown_json({"counts": removed, "more": False}))
    else:
        _show("removed", removed, more=False)


def _prune(client: Client) -> dict[str, int]:
    """Remove rows in rounds until none are left; print the progress and return the counts by kind."""
    counts: dict[str, int] = {}
    place = None
    told = 0
    while True:
        done = client.maintenance.prune(place=place)
        for kind, count in done.counts.items():
            counts[kind] = counts.get(kind, 0) + count
        place = done.place
        if place is None:
            return counts
        if (total := sum(counts.values())) >= told + _A_LINE:
            told = total
            say(f"{total} removed so far", timed=False)


def _show(what: str, counts: Mapping[str, int], *, more: bool) -> None:
    if not counts:
        say("nothing was kept for its time yet", timed=False)
    for kind, count in counts.items():
        click.echo(f"{kind:<14} {count}{'+' if more else ''} {what}")
