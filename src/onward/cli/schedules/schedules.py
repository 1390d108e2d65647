"""`onward schedules`: list schedules, run them now, pause, resume and remove them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from onward.cli.operator_options import (
    ACTOR,
    AS_JSON,
    PLACE,
    open_client,
    open_operator,
    page_options,
    say_more,
    with_options,
)
from onward.cli.schedules.schedule_lines import (
    plain_schedule,
    run_table,
    schedule_lines,
    schedule_table,
    time_lines,
)
from onward.cli.views.text import say, shown_json
from onward.core.inputs.plain_text import one_line as clean
from onward.core.upkeep.diagnosis import positional
from onward.errors import ScheduleNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = (click.argument("name"),)
_SHOWN = 5
_RUNS = 10


@click.group("schedules")
def command() -> None:
    """See which jobs run on a schedule; run, pause, resume or remove a schedule."""


@command.command("list")
@with_options(*page_options(1000), *AS_JSON, *PLACE)
def list_(*, limit: int, cursor: str | None, as_json: bool, app: str | None, url: str | None) -> None:
    """List the schedules by name, with their next time and the outcome of their last run."""
    with open_client(app, url) as client:
        page = client.schedules.list(limit=limit, cursor=cursor)
    shown = {"items": [plain_schedule(schedule) for schedule in page], "next_cursor": page.next_cursor}
    _show(shown, schedule_table(page.items, _now()), as_json=as_json)
    if not page and not as_json:
        say("no schedules; give a job type cron= or every=, and start a worker", timed=False)
    say_more(page)


@command.command("show")
@with_options(*_NAME, *AS_JSON, *PLACE)
def show(*, name: str, as_json: bool, app: str | None, url: str | None) -> None:
    """Show a schedule, its next times and its last runs."""
    with open_client(app, url) as client:
        schedule = client.schedules.get(name)
        times = client.schedules.next_times(name, _SHOWN)
        runs = client.schedules.runs(name, limit=_RUNS)
    shown = {
        **plain_schedule(schedule),
        "next_times": times.items,
        "runs": runs.items,
    }
    _show(shown, schedule_lines(schedule, times.items, runs.items, _now()), as_json=as_json)


@command.command("next")
@with_options(*_NAME)
@click.option(
    "-n", "count", type=click.IntRange(1, 1000), default=_SHOWN, show_default=True, help="How many times."
)
@with_options(*AS_JSON, *PLACE)
def next_(*, name: str, count: int, as_json: bool, app: str | None, url: str | None) -> None:
    """Print the next times of a schedule, even if it is paused."""
    with open_client(app, url) as client:
        schedule = client.schedules.get(name)
        times = client.schedules.next_times(name, count)
    shown = {"name": schedule.name, "next_times": times.items}
    _show(shown, time_lines(schedule, times.items, _now()), as_json=as_json)


@command.command("history")
@with_options(*_NAME)
@with_options(*page_options(_RUNS), *AS_JSON, *PLACE)
def history(
    *, name: str, limit: int, cursor: str | None, as_json: bool, app: str | None, url: str | None
) -> None:
    """Print the last runs of a schedule, the newest first."""
    with open_client(app, url) as client:
        runs = client.schedules.runs(name, limit=limit, cursor=cursor)
        try:
            tz = client.schedules.get(name).timing.tz
        except ScheduleNotFound:
            # A removed schedule still has its history.
            tz = "UTC"
    _show(runs, run_table(runs.items, tz), as_json=as_json)
    if not runs and not as_json:
        say(clean(f"{name} has not run yet"), timed=False)
    say_more(runs)


@command.command("run")
@with_options(*_NAME)
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *AS_JSON, *PLACE)
def run(
    *, name: str, reason: str | None, actor: str | None, as_json: bool, app: str | None, url: str | None
) -> None:
    """Enqueue the job of a schedule now, in addition to its regular times, and print the id of the job."""
    with open_operator(app, url, actor) as client:
        job_id = client.schedules.run_now(name, reason=reason).id
    click.echo(shown_json({"name": name, "job_id": job_id}) if as_json else job_id)


@command.command("pause")
@with_options(*_NAME)
@click.option("--reason", required=True, metavar="TEXT", help="The reason; lists and the audit show it.")
@with_options(*ACTOR, *PLACE)
def pause(*, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Stop a schedule from enqueueing jobs; jobs that it has enqueued continue."""
    with open_operator(app, url, actor) as client:
        changed = client.schedules.pause(name, reason=reason)
    shown = clean(name)
    say(f"{shown} is paused" if changed else f"{shown} was paused for that reason already", timed=False)


@command.command("resume")
@with_options(*_NAME)
@click.option("--reason", metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def resume(*, name: str, reason: str | None, actor: str | None, app: str | None, url: str | None) -> None:
    """Let a paused schedule run again from its next time on; exit with 1 if it was not paused."""
    with open_operator(app, url, actor) as client:
        changed = client.schedules.resume(name, reason=reason)
    shown = clean(name)
    say(f"{shown} is resumed" if changed else f"{shown} was not paused", timed=False)
    if not changed:
        sys.exit(1)


@command.command("remove")
@with_options(*_NAME)
@click.option("--reason", required=True, metavar="TEXT", help="The reason; kept in the audit.")
@with_options(*ACTOR, *PLACE)
def remove(*, name: str, reason: str, actor: str | None, app: str | None, url: str | None) -> None:
    """Remove a schedule but keep its history; one defined in code returns when a worker starts."""
    with open_operator(app, url, actor) as client:
        in_code = client.schedules.get(name).source == "code"
        client.schedules.remove(name, reason=reason)
    say(f"{clean(name)} is removed", timed=False)
    if in_code:
        pause = f"onward schedules pause --reason … {positional(name)}"
        say(
            f"it is defined in code, so it returns when a worker starts; to stop its runs: {pause}",
            timed=False,
        )


def _now() -> datetime:
    return datetime.now(UTC)


def _show(shown: object, lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(shown_json(shown))
        return
    for line in lines:
        click.echo(line)
