"""`onward tick`: run due jobs for a few seconds, for cron or a serverless platform."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from onward.cli.find_app import load_app, name_of_app
from onward.cli.log_setup import LEVELS, set_up_logs
from onward.cli.views.text import say, shown_json
from onward.core.inputs.duration import lasting


@click.command("tick")
@click.argument("app", required=False)
@click.option(
    "--max-jobs", type=click.IntRange(1), default=10, show_default=True, help="Run at most this many jobs."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    default=20,
    show_default=True,
    help="Run at most this many seconds.",
)
@click.option("--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL.")
@click.option("--log-level", type=click.Choice(LEVELS), default="warning", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document about what was done.")
def command(
    *, app: str | None, max_jobs: int, max_seconds: float, url: str | None, log_level: str, as_json: bool
) -> None:
    """Run the due jobs of APP (module:attribute), then end.

    Without APP, the app comes from ONWARD_APP, onward.toml, pyproject.toml or ./app.py.
    """
    app = name_of_app(app)
    onward = load_app(app, url)
    set_up_logs(log_level, app)
    done = onward.tick(max_jobs=max_jobs, max_seconds=max_seconds)
    shown = {
        "ok": True,
        "processed": done.processed,
        "succeeded": done.succeeded,
        "retried": done.retried,
        "dead": done.dead,
        "remainingPending": done.remaining,
        "durationMs": round(done.duration.total_seconds() * 1000),
        "asOfUtc": datetime.now(UTC),
    }
    if as_json:
        click.echo(shown_json(shown))
        return
    counts = f"{done.succeeded} succeeded, {done.retried} to try again, {done.dead} dead"
    say(
        f"{done.processed} processed: {counts}; {done.remaining} waiting; {lasting(done.duration)}",
        timed=False,
    )
