"""What a worker says when it starts: its database, its jobs, its slots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from onward.cli.views.text import lasting, masked, say
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.clients.sync.client import Client
    from onward.core.schedules.schedule import NewSchedule

_MOST_JOBS = 8


def describe_database(client: Client) -> str:
    """Reach the database and name it, without its password; a SQLite file is made and migrated by itself."""
    from onward.stores.sqlite.sqlite_store import SqliteStore

    store, plan = client.store, client.plan()
    if not isinstance(store, SqliteStore):
        plan.check()
        url = masked(getattr(store, "url", "postgresql://")).partition("://")[2]
        return f"postgresql {clean(url)} (schema {plan.version})"
    client.migrate()
    path, here = store.file.path, Path.cwd()
    name = f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
    done = "" if plan.version == plan.newest else "created, " if plan.version == 0 else "migrated, "
    return f"sqlite {clean(name)} ({done}schema {plan.newest})"


def describe_jobs(app: Onward) -> str:
    """Name the job types that were found, each with its queue, or with its times."""
    handlers, rules = app.handlers, app.rules
    if not handlers:
        return "none found; define one with @app.job"
    named = []
    for handler in list(handlers.values())[:_MOST_JOBS]:
        job, schedule = handler.template, handler.schedule
        queue = job.queue or rules.queue_of(job.job_type, job.category)
        named.append(f"{clean(job.job_type)} ({clean(queue) if schedule is None else _times(schedule)})")
    more = f" … and {len(handlers) - _MOST_JOBS} more" if len(handlers) > _MOST_JOBS else ""
    return f"{len(handlers)} found: {', '.join(named)}{more}"


def _times(schedule: NewSchedule) -> str:
    from onward.cli.schedules.schedule_lines import timing_of

    now = datetime.now(UTC)
    # With a warm-up an interval counts from the first start, of which this process may know nothing.
    counted = schedule.timing.every is not None and schedule.warm_up
    away = "" if counted else f", next in {lasting(schedule.timing.next_after(now) - now)}"
    return f"{timing_of(schedule.timing)}{away}"


def describe_worker(name: str, slots: str, queues: Mapping[str, int | None] | None) -> str:
    """Say who works, with how many slots, for which queues."""
    chosen = "all queues"
    if queues:
        chosen = ", ".join(f"{queue} (at most {most})" if most else queue for queue, most in queues.items())
    return f"{clean(name)} · {slots} · {clean(chosen)}"


def print_block(title: str, rows: Mapping[str, str]) -> None:
    """Print a title and, below it, one line for each fact."""
    from onward import __version__

    say(f"onward {__version__} · {title}", timed=False)
    for name, text in rows.items():
        say(f"  {name:<9}  {text}", timed=False)
