"""`onward prune`: remove rows past their retention now, instead of within the hour."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from onward.cli.failures.dead_target import confirmed
from onward.cli.operator_options import ACTOR, AS_JSON, PLACE, open_operator, with_options
from onward.cli.views.text import say, shown_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.clients.sync.client import Client

_A_LINE = 100_000
_ROUNDS_COUNTED = 100


@click.command("prune")
@click.option("--dry-run", is_flag=True, help="Only count what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_options(*AS_JSON, *ACTOR, *PLACE)
def command(
    *, dry_run: bool, yes: bool, as_json: bool, actor: str | None, app: str | None, url: str | None
) -> None:
    """Remove ended jobs and all other rows that are past the retention of the app."""
    with open_operator(app, url, actor) as client:
        if dry_run or not (yes or as_json):
            counts, more = _count(client)
            if dry_run and as_json:
                click.echo(shown_json({"counts": counts, "more": more}))
                return
            _show("would be removed", counts, more=more)
            if dry_run or not counts:
                return
            confirmed("Remove them?", yes=False)
        removed = _prune(client)
    if as_json:
        click.echo(shown_json({"counts": removed, "more": False}))
    else:
        _show("removed", removed, more=False)


def _count(client: Client) -> tuple[dict[str, int], bool]:
    """Return the counts of what would be removed, and whether there is more than was counted."""
    counts: Counter[str] = Counter()
    cursor = None
    for _ in range(_ROUNDS_COUNTED):
        done = client.maintenance.prune(cursor=cursor, dry_run=True)
        counts.update(done.counts)
        cursor = done.next_cursor
        if cursor is None:
            break
    return dict(counts), cursor is not None


def _prune(client: Client) -> dict[str, int]:
    """Remove rows in rounds until none are left; print the progress and return the counts by kind."""
    counts: Counter[str] = Counter()
    cursor = None
    shown = 0
    while True:
        done = client.maintenance.prune(cursor=cursor)
        counts.update(done.counts)
        cursor = done.next_cursor
        if cursor is None:
            return dict(counts)
        if counts.total() >= shown + _A_LINE:
            shown = counts.total()
            say(f"{shown} removed so far", timed=False)


def _show(what: str, counts: Mapping[str, int], *, more: bool) -> None:
    if not counts:
        say(
            "nothing is past its retention; onward maintenance report shows how long each kind is kept",
            timed=False,
        )
    for kind, count in counts.items():
        click.echo(f"{kind:<14} {count}{'+' if more else ''} {what}")
