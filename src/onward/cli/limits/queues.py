"""`onward queues`: list queues, pause queues, orgs and job types, and override the policies of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.find_app import look_for_app
from onward.cli.limits.existing_names import check_exists, nearest
from onward.cli.operator_options import ACTOR, AS_JSON, PLACE, open_client, open_operator, with_options
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.clients.sync.client import Client
    from onward.clients.sync.limits.gate import JobTypes, Orgs
    from onward.clients.sync.limits.queues import Queues
    from onward.core.jobs.filters import Counts
    from onward.core.limits.pause import Controls, Pause, Scope
    from onward.core.limits.queue_policy import Queue

_STATES = ("queued", "scheduled", "running", "blocked")
_WHAT = (
    click.argument("queue", required=False),
    click.option("--org", metavar="ORG", help="An org instead of a queue."),
    click.option("--job-type", metavar="TYPE", help="A job type instead of a queue."),
)
_FORCE = (click.option("--force", is_flag=True, help="Also if nothing has this name yet."),)


@click.group("queues")
def command() -> None:
    """List queues, pause and resume them (orgs and job types too), and set their policies."""


@command.command("list")
@with_options(*AS_JSON, *PLACE)
def list_(*, as_json: bool, app: str | None, url: str | None) -> None:
    """List the queues that have jobs, a policy or a pause, then the paused orgs and job types."""
    with open_client(app, url) as client:
        counts, controls, policies = client.jobs.count(), client.gate.status(), client.queues.list()
    queues = _queues(
        counts, controls, {one.name: one for one in policies if not one.policy.plain or one.override}
    )
    others = sorted(
        (one for one in controls.pauses if one.scope != "queue"), key=lambda one: (one.scope, one.name)
    )
    if as_json:
        click.echo(shown_json({"queues": queues, "pauses": others}))
        return
    for queue in queues:
        numbers = ", ".join(f"{queue[state]} {state}" for state in _STATES if queue[state]) or "nothing waits"
        click.echo(clean(f"{queue['name']}  {numbers}{_summary(queue['policy'])}{_why(queue['paused'])}"))
    for pause in others:
        click.echo(clean(f"{pause.scope} {pause.name}{_why(pause)}"))
    if not queues and not others:
        say(
            "no job waits or runs, and nothing is paused; onward enqueue JOB puts a job into a queue",
            timed=False,
        )


@command.command("pause")
@with_options(*_WHAT)
@click.option("--reason", required=True, metavar="TEXT", help="The reason; workers and dashboards show it.")
@with_options(*_FORCE)
@with_options(*ACTOR, *PLACE)
def pause_(
    *,
    queue: str | None,
    org: str | None,
    job_type: str | None,
    reason: str,
    force: bool,
    actor: str | None,
    app: str | None,
    url: str | None,
) -> None:
    """Stop claims from a QUEUE, an org or a job type; running jobs continue."""
    scope, name = _chosen(queue, org, job_type)
    with open_operator(app, url, actor) as client:
        if not force:
            check_exists(client, look_for_app(app, url).app, scope, name)
        changed = _pausable(client, scope).pause(name, reason=reason)
    say(clean(f"{name} is paused" if changed else f"{name} was paused for that reason already"), timed=False)


@command.command("resume")
@with_options(*_WHAT)
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def resume(
    *,
    queue: str | None,
    org: str | None,
    job_type: str | None,
    reason: str | None,
    actor: str | None,
    app: str | None,
    url: str | None,
) -> None:
    """End the pause of a QUEUE, an org or a job type."""
    scope, name = _chosen(queue, org, job_type)
    with open_operator(app, url, actor) as client:
        changed = _pausable(client, scope).resume(name, reason=reason)
        paused = [] if changed else [one.name for one in client.gate.status().pauses if one.scope == scope]
    text = f"{name} is resumed" if changed else f"{name} was not paused{nearest(name, paused)}"
    say(clean(text), timed=False)


@command.command("limit")
@click.argument("queue")
@click.option("--concurrency", metavar="N|none", help="At most this many jobs at once.")
@click.option("--rate", metavar="N/TIME|none", help="At most this many starts in a period, such as 10/1m.")
@click.option("--burst", type=int, metavar="N", help="At most this many of those starts at once.")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*_FORCE, *ACTOR, *PLACE)
def limit(
    *,
    queue: str,
    concurrency: str | None,
    rate: str | None,
    burst: int | None,
    reason: str,
    force: bool,
    actor: str | None,
    app: str | None,
    url: str | None,
) -> None:
    """Override the policy that the application declares for QUEUE; "none" removes a bound."""
    if concurrency is None and rate is None and burst is None:
        raise click.UsageError("no bound was given; give --concurrency, --rate or --burst")
    if concurrency not in {None, "none"} and not str(concurrency).isdecimal():
        raise click.UsageError(f"--concurrency is {concurrency!r:.80}; give a whole number, or none")
    most: Any = int(concurrency) if concurrency and concurrency.isdecimal() else concurrency
    with open_operator(app, url, actor) as client:
        if not force:
            check_exists(client, look_for_app(app, url).app, "queue", queue)
        now = client.queues.limit(queue, concurrency=most, rate=rate, burst=burst, reason=reason)
    say(clean(f"{queue}{_summary(now.policy.stored())}"), timed=False)


@command.command("reset")
@click.argument("queue")
@click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def reset(*, queue: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Return QUEUE to the policy that the application declares."""
    with open_operator(app, url, actor) as client:
        changed = client.queues.reset(queue, reason=reason)
    say(clean(f"{queue} is as declared" if changed else f"{queue}: no bounds were set"), timed=False)


def _pausable(client: Client, scope: Scope) -> Queues | Orgs | JobTypes:
    match scope:
        case "queue":
            return client.queues
        case "org":
            return client.orgs
    return client.job_types


def _chosen(queue: str | None, org: str | None, job_type: str | None) -> tuple[Scope, str]:
    named: list[tuple[Scope, str]] = []
    named += [] if queue is None else [("queue", queue)]
    named += [] if org is None else [("org", org)]
    named += [] if job_type is None else [("job_type", job_type)]
    if len(named) != 1:
        raise click.UsageError("give exactly one of QUEUE, --org and --job-type")
    return named[0]


def _queues(counts: Counts, controls: Controls, policies: Mapping[str, Queue]) -> list[dict[str, Any]]:
    pauses = {one.name: one for one in controls.pauses if one.scope == "queue"}
    return [
        {
            "name": name,
            **_numbers(counts, name),
            "paused": pauses.get(name),
            "policy": policies[name].policy.stored() if name in policies else None,
            "override": policies[name].override if name in policies else None,
        }
        for name in sorted({*counts.live, *pauses, *policies})
    ]


def _numbers(counts: Counts, queue: str) -> dict[str, int]:
    live = {str(state): number for state, number in counts.live.get(queue, {}).items()}
    return {state: live.get(state, 0) for state in _STATES}


def _summary(policy: dict[str, Any] | None) -> str:
    """Describe the policy of a queue in words; "" if it has none."""
    if policy is None:
        return ""
    parts = [f"at most {policy['concurrency']} at once"] if "concurrency" in policy else []
    parts += [f"at most {policy['rate']}"] if "rate" in policy else []
    parts += [f"{policy['burst']} in a burst"] if "burst" in policy else []
    parts += ["fair"] if "fair" in policy else []
    parts += [f"ageing {policy['ageing']:g} s"] if "ageing" in policy else []
    return f"  {', '.join(parts) or 'no bounds'}"


def _why(pause: Pause | None) -> str:
    if pause is None:
        return ""
    actor = ":".join(part for part in (pause.actor_type, pause.actor_id) if part)
    since = f"{pause.paused_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"  paused since {since}{f' by {actor}' if actor else ''}: {pause.reason}"
