"""The view `jobs`, for people and for hand-written SQL: every job, live or ended, and how it is shown."""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward import Client, Failed, JobFilter, NewJob, Outcome, Skip, Succeeded
from onward.core.jobs.job import COLUMNS
from onward.results import Job
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.postgres.postgres_schema import clean_schema

Ask = Callable[[str], list[tuple[Any, ...]]]

ERROR = {"error_class": "E", "message": "m"}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Client, Ask]]:
    """A client, and a way to ask its database by hand; `{}` stands for the prefix."""
    if request.param == "sqlite":
        with contextlib.closing(SqliteStore(tmp_path / "onward.db")) as file:
            client = Client(store=file)
            client.jobs.count()
            with contextlib.closing(sqlite3.connect(file.file.path)) as own:
                yield client, lambda sql: own.execute(sql.replace("{}", file.prefix)).fetchall()
        return
    url = request.getfixturevalue("postgres_url")
    with clean_schema(url) as schema, psycopg.connect(url, autocommit=True) as connection:
        client = Client(store=schema)
        yield client, lambda sql: connection.execute(sql.replace("{}", schema.prefix).encode()).fetchall()


def claimed(client: Client, worker: str = "w", **fields: Any) -> Job:
    client.enqueue(NewJob(job_type="t", **fields))
    with contextlib.suppress(ValueError):
        client.worker.register(worker)
    [job] = client.worker.claim("q:default", worker_id=worker)
    return job


def shown(ask: Ask, job_id: str) -> tuple[str, str]:
    [(state, name)] = ask(f"SELECT state, shown FROM {{}}jobs WHERE id = '{job_id}'")
    return state, name


def test_a_job_that_waits_for_its_first_run_is_shown_as_stored(database):  # S1-5, S2-6
    client, ask = database
    ready = client.enqueue(NewJob(job_type="t")).id
    later = client.enqueue(NewJob(job_type="t", delay=timedelta(hours=1))).id
    assert shown(ask, ready) == ("queued", "queued")
    assert shown(ask, later) == ("scheduled", "scheduled")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Failed(ERROR), ("scheduled", "retrying")),
        (Failed(ERROR, retryable=False), ("dead", "dead")),
        (Skip("no"), ("succeeded", "skipped")),
        (Succeeded(), ("succeeded", "succeeded")),
    ],
    ids=["retrying", "dead", "skipped", "succeeded"],
)
def test_an_outcome_is_shown_by_its_name(database, outcome: Outcome, expected):  # R1
    client, ask = database
    job = claimed(client)
    assert shown(ask, job.id) == ("running", "running")
    client.worker.finish([job.end_with(outcome)]).require()
    assert shown(ask, job.id) == expected
    [listed] = client.jobs.list(JobFilter(state=expected[1])).items
    assert listed.id == job.id


def test_a_cancelled_job_is_shown_as_cancelled(database):
    client, ask = database
    job_id = client.enqueue(NewJob(job_type="t")).id
    client.jobs.cancel(job_id, reason="r")
    assert shown(ask, job_id) == ("cancelled", "cancelled")


def test_a_job_whose_worker_is_gone_is_shown_as_stuck(database):  # R1
    client, ask = database
    retired, expired, alive = (claimed(client, worker) for worker in ("retired", "expired", "alive"))
    client.worker.retire("retired")
    client.at(datetime.now(UTC) - timedelta(minutes=1)).worker.extend(
        "expired", [], lease=timedelta(seconds=1)
    )
    assert [shown(ask, job.id)[1] for job in (retired, expired, alive)] == ["stuck", "stuck", "running"]
    stuck = client.jobs.list(JobFilter(state="stuck")).items
    assert {job.id for job in stuck} == {retired.id, expired.id}


def test_the_view_has_every_column_of_a_job_in_order_and_how_it_is_shown(database):
    client, ask = database
    client.worker.finish([claimed(client).end_with(Succeeded())])
    client.enqueue(NewJob(job_type="t"))
    rows = ask("SELECT * FROM {}jobs")
    assert {len(row) for row in rows} == {len(COLUMNS) + 2}
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    assert sorted(map(str, ask(f"SELECT {names}, shown, updated_at FROM {{}}jobs"))) == sorted(map(str, rows))


def test_a_job_shows_when_it_was_last_changed(database):  # S0-14, S2-10, S3-17
    client, ask = database
    start = datetime(2026, 1, 2, tzinfo=UTC)
    client.at(start).worker.register("w", lease=timedelta(days=1))

    def changed(hours: int) -> bool:
        [(updated_at,)] = ask("SELECT updated_at FROM {}jobs")
        at = start + timedelta(hours=hours)
        return updated_at in {at, at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}

    client.at(start).enqueue(NewJob(job_type="t"))
    assert changed(0)
    for hours, outcome in ((1, Failed(ERROR, after=timedelta())), (3, Succeeded())):
        client.at(start + timedelta(hours=hours)).worker.promote()
        [job] = client.at(start + timedelta(hours=hours)).worker.claim("q:default", worker_id="w")
        assert changed(hours)
        client.at(start + timedelta(hours=hours + 1)).worker.finish([job.end_with(outcome)])
        assert changed(hours + 1)


def test_its_times_are_readable(database):
    client, ask = database
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    client.enqueue(NewJob(job_type="t", run_at=at))
    [(run_at, ended_at)] = ask("SELECT run_at, ended_at FROM {}jobs")
    assert ended_at is None
    assert run_at in {at, "2026-01-02T03:04:05.678Z"}
    [(created_at,)] = ask("SELECT created_at FROM {}jobs")
    assert isinstance(created_at, datetime) or re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created_at
    )
