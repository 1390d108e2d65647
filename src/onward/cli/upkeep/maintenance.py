"""`onward maintenance`: show how much space the tables use and how to reduce it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import AS_JSON, PLACE, open_client, with_options
from onward.cli.views.text import say, shown_json

if TYPE_CHECKING:
    from onward.core.upkeep.sizes import SizeReport

_MOST_LINES = 20


@click.group("maintenance")
def command() -> None:
    """See how much space the tables use, and how to reduce it."""


@command.command("report")
@with_options(*AS_JSON, *PLACE)
def report(*, as_json: bool, app: str | None, url: str | None) -> None:
    """Print the size of the tables, how much of it is wasted, and the statements that free it."""
    with open_client(app, url) as client:
        seen = client.maintenance.report()
    if as_json:
        click.echo(shown_json(seen))
        return
    for line in _lines(seen):
        click.echo(line)
    for advice in seen.advice:
        say(advice.what, timed=False)
        click.echo(f"{advice.sql};")
    if not seen.advice:
        say("nothing needs to be done", timed=False)


def _lines(seen: SizeReport) -> list[str]:
    file = seen.file
    lines = [f"database {_size(file.bytes)}, free {_size(file.free_bytes)}, log {_size(file.log_bytes)}"]
    if file.oldest_transaction is not None:
        lines[0] = f"database {_size(file.bytes)}, oldest row {file.oldest_transaction} transactions old"
    if seen.tables:
        lines.append(f"{'TABLE':<32} {'SIZE':>9} {'ROWS':>12} {'DEAD':>10} {'EMPTY':>6}  VACUUMED")
    for table in seen.tables[:_MOST_LINES]:
        vacuumed = (
            "never" if table.vacuumed_at is None else f"{table.vacuumed_at.astimezone():%Y-%m-%d %H:%M}"
        )
        lines.append(
            f"{table.name:<32} {_size(table.bytes):>9} {table.live_rows:>12} {table.dead_rows:>10} "
            f"{_share(table.bloat):>6}  {vacuumed}"
        )
    return lines


def _size(amount: int) -> str:
    return f"{amount / 2**20:.1f} MiB"


def _share(part: float | None) -> str:
    return "?" if part is None else f"{part:.0%}"
