"""`onward gate`: open or close the gate for all workers, or show its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import ACTOR, AS_JSON, PLACE, open_client, open_operator, with_options
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.limits.pause import Gate


@click.group("gate")
def command() -> None:
    """Let workers claim jobs, or stop all claims; running jobs continue."""


@command.command("open")
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def open_(*, reason: str | None, actor: str | None, app: str | None, url: str | None) -> None:
    """Let workers claim jobs again."""
    with open_operator(app, url, actor) as client:
        changed = client.gate.open(reason=reason)
    say("the gate is open" if changed else "the gate was open already", timed=False)


@command.command("close")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; workers and dashboards show it.")
@with_options(*ACTOR, *PLACE)
def close(*, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Stop all claims; running jobs continue."""
    with open_operator(app, url, actor) as client:
        changed = client.gate.close(reason=reason)
    say("the gate is closed" if changed else "the gate was closed for that reason already", timed=False)


@command.command("status")
@with_options(*AS_JSON, *PLACE)
def status(*, as_json: bool, app: str | None, url: str | None) -> None:
    """Show whether the gate is open; if it is closed, also the actor, the time and the reason."""
    with open_client(app, url) as client:
        gate = client.gate.status().gate
    if as_json:
        from onward.core.plain import plain

        click.echo(shown_json({"open": gate is None, **(plain(gate) or {})}))
    else:
        click.echo("open" if gate is None else _line(gate))


def _line(gate: Gate) -> str:
    actor = ":".join(part for part in (gate.actor_type, gate.actor_id) if part)
    parts = ["closed", f"{gate.closed_at.astimezone():%Y-%m-%d %H:%M:%S}", actor, gate.reason]
    return clean("  ".join(part for part in parts if part))
