"""The table of the guide is true: a worker's handlers call a provider by each client, and end as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from onward import Onward, RetryPolicy
from onward.core.jobs.job import WAITING
from onward.core.work.error_record import ErrorRecord
from tests.failures.classification.classification_provider import Provider, fetch, fetch_async, provider

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "failures.md"
ROW = re.compile(r"^\| `([^`]+)` \| (?:`(\w+)`)? ?\| (\w+) \| ([^|]*?) ?\| (yes|no) \|$", re.MULTILINE)

BACKOFF = timedelta(seconds=7)
POLICY = RetryPolicy(kind="fixed", base=BACKOFF, jitter=False, max_attempts=3)

# What each way to fail comes to is shown for all clients, every row for one.
EACH = (
    "200", "401", "403", "404", "408", "429 Retry-After: 120", "500", "503 Retry-After: 30", "hangs",
    "cuts the connection",
)  # fmt: skip
OTHERS = ("httpx2", "requests", "urllib", "aiohttp")


class Row(NamedTuple):
    answer: str
    rule: str | None
    state: str
    wait: timedelta | None
    burns: bool


def rows() -> dict[str, Row]:
    table = GUIDE.read_text().partition("\n## Answers of a provider\n")[2].partition("\n## ")[0]
    found = {}
    for answer, rule, state, waits, burns in ROW.findall(table):
        seconds = re.fullmatch(r"(\d+) s", waits)
        wait = timedelta(seconds=int(seconds[1])) if seconds else BACKOFF if waits == "back-off" else None
        found[answer] = Row(answer, rule or None, state, wait, burns == "yes")
    assert len(found) == table.count("\n| `"), "a row of the table can't be read"
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with provider() as server:
        yield server


def test_every_row_of_the_table_is_what_becomes_of_a_job(app: Onward, server: Provider):
    # S3-22: 401, 403 and MISSING_SCOPES are dead at once. S4-41: 5xx and rate limits, by the provider's wait.
    calls = [("httpx", row) for row in rows().values()]
    calls += [(client, rows()[answer]) for client in OTHERS for answer in EACH]

    @app.job(name="blocking", retry=POLICY)
    def call(client: str, url: str) -> None:
        fetch(client, url)

    @app.job(name="async", retry=POLICY)
    async def acall(client: str, url: str) -> None:
        await fetch_async(url)

    handles = app.enqueue_many(
        (acall if client == "aiohttp" else call).build(client, server.url(row.answer))
        for client, row in calls
    )
    app.tick(max_jobs=len(calls))
    wrong = {}
    for (client, row), handle in zip(calls, handles, strict=True):
        job = handle.refresh()
        error = job.error or ErrorRecord()
        # The back-off and a provider's wait are counted from the end of the attempt, by the database's clock.
        ended = app.client.jobs.attempts(job.id)[0].ended_at
        # One that waits for a second only may have become ready meanwhile.
        waits = job.state in WAITING
        wait = job.run_at - ended if waits and ended is not None else None
        shown = Row(
            row.answer,
            error.rule,
            "scheduled" if waits else job.state.value,
            None if wait is None else timedelta(seconds=round(wait.total_seconds())),
            job.attempt == 1,
        )
        if shown != row or (job.error and row.answer[:3].isdigit() and error.status != int(row.answer[:3])):
            wrong[client, row.answer] = (shown, error)
    assert wrong == {}


def test_the_table_has_what_a_provider_does():
    # Taken from the page, not from the code: a row that is dropped there is missed here.
    assert set(EACH) | {"429", "429 Retry-After: soon", "503", "403 MISSING_SCOPES"} <= rows().keys()
    assert {row.state for row in rows().values()} == {"succeeded", "dead", "scheduled"}


def test_what_can_not_pass_tells_the_operator_what_to_do(app: Onward, server: Provider):
    @app.job
    def call(url: str) -> None:
        fetch("httpx", url)

    app.hint("missing_scopes", "add the scopes", link="https://app.example/scopes")
    jobs = [call.enqueue(server.url(answer)) for answer in ("401", "403 MISSING_SCOPES")]
    app.tick()
    refused, scopes = (job.refresh().error or ErrorRecord() for job in jobs)
    assert str(refused.hint).startswith("the provider refused the key")
    assert refused.link is None
    assert (scopes.hint, scopes.link) == ("add the scopes", "https://app.example/scopes")
