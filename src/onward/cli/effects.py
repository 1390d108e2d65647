"""`onward effects`: shows what a job has done outside, and has it done again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.lines import clean, say, shown_json
from onward.cli.loading import find_app

if TYPE_CHECKING:
    from onward.client import Client
    from onward.core.effect import Effect

__all__ = ["command"]

_APP = click.option(
    "--app", metavar="APP", help="module:attribute; else ONWARD_APP, onward.toml, pyproject.toml, ./app.py."
)
_URL = click.option(
    "--url", metavar="URL", help="The database; else ONWARD_URL, else the app's own, else ./onward.db."
)


@click.group("effects")
def command() -> None:
    """List what a job has done once, and reset it to be done again."""


@command.command("list")
@click.argument("job", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print one document.")
@_APP
@_URL
def list_(*, job: str, as_json: bool, app: str | None, url: str | None) -> None:
    """List the effects of a job, and the steps whose results it remembers."""
    with _open(app, url) as client:
        found = client.effects.list(job)
        redact = client.rules.redact.redact
    if as_json:
        click.echo(shown_json([redact(_plain(effect)) for effect in found]))
        return
    for effect in found:
        click.echo(_line(effect))
    if not found:
        say("no effects are recorded", timed=False)


@command.command("reset")
@click.argument("job", metavar="JOB")
@click.argument("name", metavar="NAME")
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why it is to be done again; kept in the audit."
)
@click.option("--actor", metavar="TYPE:ID", help="Who does this; else cli:user@host.")
@_APP
@_URL
def reset(*, job: str, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Have an effect done again, under a new key, the next time the job runs."""
    from onward.handlers.options import read_actor

    actor_type, actor_id = read_actor(actor or _operator())
    with _open(app, url) as client:
        effect = client.effects.reset(job, name, reason=reason, actor_type=actor_type, actor_id=actor_id)
        state = client.get(job).state
    say(f"reset {clean(effect.name)!r}; the job is {state}, and does it again when it next runs", timed=False)
    click.echo(effect.key)


def _open(app: str | None, url: str | None) -> Client:
    from onward.handlers.clients import Clients

    known = find_app(app, url)
    return (known.clients if known else Clients(url)).open()


def _operator() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container without a list of users.
        user = "unknown"
    return f"cli:{user}@{socket.gethostname()}"


def _plain(effect: Effect) -> dict[str, Any]:
    return {
        "job_id": effect.job_id,
        "name": effect.name,
        "kind": effect.kind,
        "state": effect.state,
        "generation": effect.generation,
        "idempotency_key": effect.key if effect.kind == "once" else None,
        "attempt": effect.attempt,
        "lease": effect.lease,
        "result": effect.result,
        "begun_at": None if effect.begun_at is None else _moment(effect.begun_at),
        "done_at": None if effect.done_at is None else _moment(effect.done_at),
    }


def _moment(at: Any) -> str:
    return str(at.isoformat(timespec="microseconds").replace("+00:00", "Z"))


def _line(effect: Effect) -> str:
    at = effect.done_at or effect.begun_at
    when = "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    key = effect.key if effect.kind == "once" else ""
    parts = [effect.state, effect.kind, effect.name, f"attempt {effect.attempt}", when, key]
    return clean("  ".join(part for part in parts if part))
