"""`onward job-types`: what job types are for, and the switch that skips the jobs of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import ACTOR, AS_JSON, PLACE, open_client, open_operator, with_options
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.jobs.job_types import KnownJobType


@click.group("job-types")
def command() -> None:
    """List the job types of an app and of its live workers, and skip the jobs of one."""


@command.command("list")
@with_options(*AS_JSON, *PLACE)
def list_(*, as_json: bool, app: str | None, url: str | None) -> None:
    """List job types: their purpose, their queue, their maker and what triggers them."""
    with open_client(app, url) as client:
        found = client.job_types.list()
    if as_json:
        click.echo(shown_json(found.items))
        return
    for one in found:
        for line in _lines(one):
            click.echo(line)


@command.command("skip")
@click.argument("job_type")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; each skipped job shows it.")
@with_options(*ACTOR, *PLACE)
def skip(*, job_type: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Let the jobs of JOB_TYPE succeed without a run, with outcome skipped."""
    with open_operator(app, url, actor) as client:
        changed = client.job_types.skip(job_type, reason=reason)
    outcome = "is skipped" if changed else "was skipped for that reason already"
    say(clean(f"{job_type} {outcome}"), timed=False)


@command.command("unskip")
@click.argument("job_type")
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def unskip(*, job_type: str, reason: str | None, actor: str | None, app: str | None, url: str | None) -> None:
    """Let the jobs of JOB_TYPE run again."""
    with open_operator(app, url, actor) as client:
        changed = client.job_types.unskip(job_type, reason=reason)
    say(clean(f"{job_type} runs again" if changed else f"{job_type} was not skipped"), timed=False)


def _lines(one: KnownJobType) -> list[str]:
    state = " (disabled in code)" if not one.enabled else ""
    state += f" (skipped: {one.skip.reason})" if one.skip else ""
    state += f" (paused: {one.pause.reason})" if one.pause else ""
    lines = [clean(f"{one.name}  {one.purpose or '-'}{state}")]
    facts = {
        "queue": one.queue and f"{one.queue}, category {one.category}",
        "created by": one.created_by,
        "triggered by": ", ".join(one.triggered_by),
        "live workers": str(one.workers),
    }
    return lines + [f"  {name:<13} {clean(value)}" for name, value in facts.items() if value]
