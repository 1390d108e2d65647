"""The options that operator commands share: the app, the database, the actor, the output format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onward.cli.find_app import FoundApp, look_for_app, show_trace
from onward.cli.views.text import say
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.clients.sync.client import Client
    from onward.core.jobs.ids import JobId
    from onward.core.page import Page

PLACE = (
    click.option(
        "--app",
        metavar="APP",
        help="module:attribute; else ONWARD_APP, onward.toml, pyproject.toml, ./app.py.",
    ),
    click.option(
        "--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL, else ./onward.db."
    ),
)


def check_actor(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return the value of `--actor`; refuse what names no type or no id."""
    del ctx
    if text is not None and not all(text.partition(":")):
        raise click.BadParameter(f"{text!r:.80} names no actor; give type:id, such as user:42", param=param)
    return text


ACTOR = (
    click.option(
        "--actor",
        metavar="TYPE:ID",
        callback=check_actor,
        help="The actor that does this; else cli:user@host.",
    ),
)
AS_JSON = (click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),)

_DIGITS = 32


def with_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Add options to a command, in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def page_options(usual: int, *, most: int = 1000) -> tuple[Callable[..., Any], ...]:
    """Return the options that choose a page of a listing."""
    size = click.IntRange(1, most)
    return (
        click.option("--limit", type=size, default=usual, show_default=True, help="At most this many lines."),
        click.option("--cursor", metavar="CURSOR", help="Continue after an earlier page."),
    )


def say_more(page: Page[Any]) -> None:
    """Print how to continue a listing, unless this is its last page."""
    if page.next_cursor is not None:
        say(f"more: --cursor {page.next_cursor}", timed=False)


def open_client(app: str | None, url: str | None) -> Client:
    """Open the database that a command reads; connect on first use, raise if its SQLite file is missing.

    With a URL the command runs without an app that can't be imported: the operator may be unable to fix
    the app.
    """
    found = look_for_app(app, url)
    if found.broken is not None and url is not None:
        from onward.logs import hide

        say(f"{clean(hide(str(found.broken)))}; going on without the app, by default policies", timed=False)
    client = open_found(found, url)
    _require_file(client)
    return client


def open_operator(app: str | None, url: str | None, actor: str | None) -> Client:
    """Open the database that a command changes, acting for `--actor` or the user of this machine."""
    return open_client(app, url).acting_as(actor or f"cli:{_user()}")


def _require_file(client: Client) -> None:
    """Refuse to create a database: an operator means one that workers already use."""
    from onward.errors import StoreUnreachable
    from onward.stores.sqlite.sqlite_store import SqliteStore

    store = client.store
    if not isinstance(store, SqliteStore):
        return
    elsewhere = (
        "If the app keeps its jobs elsewhere, name it with --app or ONWARD_APP, or its database with --url, "
        "and an Onward(name=…) with ONWARD_NAME"
    )
    if not store.file.path.exists():
        raise StoreUnreachable(
            f"there is no database file {store.file.path}; the first worker or enqueue makes it. {elsewhere}"
        )
    if client.plan().version == 0:
        raise StoreUnreachable(
            f"there are no tables {store.prefix}* in {store.file.path}; the first worker or enqueue makes "
            f"them. {elsewhere}"
        )


def open_found(found: FoundApp, url: str | None) -> Client:
    """Open the database of the app, or of the URL if no app was found; raise the error of a broken app."""
    from onward.handlers.clients import Clients

    if found.broken is not None and url is None:
        show_trace(found.broken)
        raise found.broken
    return (found.app.clients if found.app else Clients(url)).open()


def find_job(client: Client, name: str) -> JobId:
    """Return the job whose id begins with `name`; raise JobNotFound for none, InvalidSetting for several."""
    from onward.core.jobs.filters import JobFilter
    from onward.core.jobs.ids import normalise_id
    from onward.errors import InvalidSetting, JobNotFound

    if len(name.replace("-", "")) == _DIGITS:
        return normalise_id(name)
    begun = [job.id for job in client.jobs.list(JobFilter(id=name), limit=2)]
    if not begun:
        raise JobNotFound(f"no job begins with {name!r:.80}; it was never enqueued here, or has been removed")
    if len(begun) > 1:
        raise InvalidSetting(
            f"{name!r:.80} is the beginning of several jobs: {', '.join(begun)}; give more characters"
        )
    return begun[0]


def _user() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may have no list of users.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
