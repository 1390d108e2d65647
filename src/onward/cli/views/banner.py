"""Describe a worker when it starts: its database, its job types, its slots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from onward.cli.views.text import masked, say
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean
from onward.core.policy.application import SCHEMA

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.clients.sync.client import Client
    from onward.core.schedules.schedule import NewSchedule

_MOST_JOBS = 8


def describe_database(client: Client) -> str:
    """Connect to the database and return its name without the password; create or migrate a SQLite file."""
    from onward.stores.sqlite.sqlite_store import SqliteStore

    store, plan = client.store, client.plan()
    named = "" if store.prefix[:-1] == SCHEMA else f", tables {store.prefix}*"
    if not isinstance(store, SqliteStore):
        plan.check()
        url = masked(getattr(store, "url", "postgresql://")).partition("://")[2]
        return f"postgresql {clean(url)}{named} (schema {plan.version})"
    client.migrate()
    path, here = store.file.path, Path.cwd()
    name = f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
    done = "" if plan.version == plan.newest else "created, " if plan.version == 0 else "migrated, "
    return f"sqlite {clean(name)}{named} ({done}schema {plan.newest})"


def describe_jobs(app: Onward) -> str:
    """Return the job types of the app, each with its queue, or with its times if it has a schedule."""
    handlers, policies = app.handlers, app.policies
    if not handlers:
        return "none found; define one with @app.job"
    named = []
    for handler in list(handlers.values())[:_MOST_JOBS]:
        job, schedule = handler.template, handler.schedule
        queue = job.queue or policies.queue_of(job.job_type, job.category)
        named.append(f"{clean(job.job_type)} ({clean(queue) if schedule is None else _times(schedule)})")
    more = f" … and {len(handlers) - _MOST_JOBS} more" if len(handlers) > _MOST_JOBS else ""
    return f"{len(handlers)} found: {', '.join(named)}{more}"


def _times(schedule: NewSchedule) -> str:
    from onward.cli.schedules.schedule_lines import timing_of

    now = datetime.now(UTC)
    # With a warm-up the interval counts from the first start, which this process may not know.
    counted = schedule.timing.every is not None and schedule.warm_up
    away = "" if counted else f", next in {lasting(schedule.timing.next_after(now) - now)}"
    return f"{timing_of(schedule.timing)}{away}"


def describe_worker(name: str, slots: str, queues: Mapping[str, int | None] | None) -> str:
    """Return the name of the worker, its slots and its queues in one line."""
    chosen = "all queues"
    if queues:
        chosen = ", ".join(f"{queue} (at most {most})" if most else queue for queue, most in queues.items())
    return f"{clean(name)} · {slots} · {clean(chosen)}"


def print_block(title: str, rows: Mapping[str, str]) -> None:
    """Print a title and below it one line for each row."""
    from onward import __version__

    say(f"onward {__version__} · {title}", timed=False)
    for name, text in rows.items():
        say(f"  {name:<9}  {text}", timed=False)
