"""Jobs that have ended, to be removed later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from onward import Client, NewJob
from onward.core.upkeep.maintenance import PruneRound
from onward.core.work.lifecycle import Cancelled, Failed, Outcome, Succeeded

__all__ = ["DAY", "LONG", "later", "left", "prune_all", "put_ended", "row_count"]

DAY = timedelta(days=1)
LONG = 20_000 * DAY
OUTCOMES: dict[str, Outcome] = {
    "succeeded": Succeeded(),
    "dead": Failed("no", retryable=False),
    "cancelled": Cancelled("no"),
}


def later(days: float) -> datetime:
    """Give an instant in so many days."""
    return datetime.now(UTC) + days * DAY


def put_ended(client: Client, state: str = "succeeded", **fields: Any) -> str:
    """Store a job and have it end in a state; gives its id."""
    worker = f"w{uuid4().hex}"
    client.worker.register(worker, lease=LONG)
    new = NewJob(**{"job_type": "t", **fields})
    job_id = client.enqueue(new).id
    queue = client.jobs.get(job_id).queue
    [job] = [job for job in client.worker.claim(queue, 100, worker_id=worker) if job.id == job_id]
    client.worker.finish([job.end_with(OUTCOMES[state])])
    assert client.jobs.get(job_id).state == state
    return job_id


def left(client: Client, *ids: str) -> list[str]:
    """Give those of the jobs that are still there."""
    found = client.jobs.get_many(ids)
    return [job_id for job_id in ids if job_id in found]


def prune_all(client: Client, now: datetime | None = None, **options: Any) -> dict[str, int]:
    """Prune round after round until the end; gives the counts of all."""
    counts: dict[str, int] = {}
    done: PruneRound | None = None
    while done is None or done.next_cursor is not None:
        cursor = None if done is None else done.next_cursor
        done = client.at(now).maintenance.prune(cursor=cursor, **options)
        for kind, count in done.counts.items():
            counts[kind] = counts.get(kind, 0) + count
    return counts


def row_count(client: Client, table: str) -> int:
    """Count the rows of a table."""
    connection: Any = client.store.connect()
    try:
        [(count,)] = connection.execute(f"SELECT count(*) FROM {client.store.prefix}{table}").fetchall()
    finally:
        connection.close()
    return int(count)
