"""What the commands of an operator share: which database they are about, and who acts for which reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

import click

from onward.cli.loading import find_app

if TYPE_CHECKING:
    from onward.client import Client

__all__ = ["AS_JSON", "PLACE", "WHO", "given", "open_client", "operator"]

PLACE = (
    click.option(
        "--app",
        metavar="APP",
        help="module:attribute; else ONWARD_APP, onward.toml, pyproject.toml, ./app.py.",
    ),
    click.option(
        "--url", metavar="URL", help="The database; else ONWARD_URL, else the app's own, else ./onward.db."
    ),
)
WHO = (click.option("--actor", metavar="TYPE:ID", help="Who does this; else cli:user@host."),)
AS_JSON = (click.option("--json", "as_json", is_flag=True, help="Print one document."),)


class Operator(TypedDict):
    """Who acts, as clients ask for it."""

    actor_type: str | None
    actor_id: str | None


def given(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Add options to a command, in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def open_client(app: str | None, url: str | None) -> Client:
    """Open the database that a command is about; it connects on first use."""
    from onward.handlers.clients import Clients

    known = find_app(app, url)
    return (known.clients if known else Clients(url)).open()


def operator(actor: str | None) -> Operator:
    """Say who acts: whoever was named, or the user of this machine."""
    from onward.handlers.options import read_actor

    actor_type, actor_id = read_actor(actor or f"cli:{_user()}")
    return {"actor_type": actor_type, "actor_id": actor_id}


def _user() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container without a list of users.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
