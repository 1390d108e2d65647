"""`onward migrate`: create or update the tables, or show what would be done."""

from __future__ import annotations

import click

from onward.cli.find_app import find_app
from onward.cli.views.text import say


@click.command("migrate")
@click.option("--plan", "only_plan", is_flag=True, help="Print the SQL; change nothing.")
@click.option(
    "--check", "only_check", is_flag=True, help="End with 5 unless the tables are up to date; change nothing."
)
@click.option(
    "--row-security/--no-row-security",
    default=None,
    help="Turn row-level security on or off; on, only the owner of the tables sees several orgs.",
)
@click.option(
    "--app", metavar="APP", help="module:attribute; else ONWARD_APP, onward.toml, pyproject.toml, ./app.py."
)
@click.option(
    "--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL, else ./onward.db."
)
def command(
    *, only_plan: bool, only_check: bool, row_security: bool | None, app: str | None, url: str | None
) -> None:
    """Make or update the tables of Onward in the database."""
    if only_plan and only_check:
        raise click.UsageError("give --plan or --check, not both")
    if row_security is not None and (only_plan or only_check):
        raise click.UsageError(
            "--row-security changes the tables, which --plan and --check do not; leave them out"
        )
    from onward.handlers.clients import Clients

    known = find_app(app, url)
    with (known.clients if known else Clients(url)).open() as client:
        plan = client.plan() if only_plan or only_check else client.migrate()
        if row_security is not None:
            client.protect_orgs(enable=row_security)
    if only_plan:
        click.echo(plan.sql, nl=False)
    if only_check:
        plan.check()
    if not plan.pending:
        say(f"schema {plan.version} is up to date", timed=False)
    elif not only_plan:
        say(f"schema {plan.version} → {plan.newest}", timed=False)
    if row_security is not None:
        say(f"row-level security is {'on' if row_security else 'off'}", timed=False)
