"""`onward effects`: list the effects of a job, and reset one so that the job does it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import (
    ACTOR,
    AS_JSON,
    PLACE,
    find_job,
    open_client,
    open_operator,
    page_options,
    say_more,
    with_options,
)
from onward.cli.views.text import say, shown_json, table
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.work.effect import Effect


@click.group("effects")
def command() -> None:
    """List the effects of a job, and reset one so that the job does it again."""


@command.command("list")
@click.argument("job", metavar="JOB")
@with_options(*page_options(1000), *AS_JSON, *PLACE)
def list_(
    *, job: str, limit: int, cursor: str | None, as_json: bool, app: str | None, url: str | None
) -> None:
    """List the effects of a job, and the steps whose results it has stored."""
    with open_client(app, url) as client:
        job_id = find_job(client, job)
        page = client.effects.list(job_id, limit=limit, cursor=cursor)
        if not page:
            client.jobs.get(job_id)
        redaction = client.policies.settings.redact
    if as_json:
        click.echo(shown_json(page, redaction))
        return
    for line in table(["STATE", "KIND", "NAME", "ATTEMPT", "AT", "KEY"], [_cells(effect) for effect in page]):
        click.echo(line)
    if not page:
        say("no effects are recorded", timed=False)
    say_more(page)


@command.command("reset")
@click.argument("job", metavar="JOB")
@click.argument("name", metavar="NAME")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def reset(*, job: str, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Reset an effect: the next time the job runs, it does the effect again under a new key."""
    with open_operator(app, url, actor) as client:
        job_id = find_job(client, job)
        effect = client.effects.reset(job_id, name, reason=reason)
        state = client.jobs.get(job_id).state
    say(f"reset {clean(effect.name)!r}; the job is {state}, and does it again when it next runs", timed=False)
    click.echo(f"its new key  {effect.key}")


def _cells(effect: Effect) -> list[str]:
    at = effect.done_at or effect.begun_at
    when = "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    return [effect.state, effect.kind, effect.name, str(effect.attempt), when, effect.idempotency_key or ""]
