"""What happened to a job is read page by page: its runs, its events, its effects; the order never changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, Failed, InvalidSetting, NewJob, Outcome, Released, Succeeded
from onward.results import Page

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = 5


@pytest.fixture
def job_id(client: Client) -> str:
    """A job with several runs and effects, of which the last run has succeeded."""
    client.at(T).worker.register("w", lease=timedelta(days=1))
    job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=9)).id
    for number in range(RUNS):
        now = client.at(T + number * timedelta(seconds=1))
        now.worker.promote()
        [job] = now.worker.claim("q:default", worker_id="w")
        now.worker.effects.remember(job, f"step {number}", number)
        end: Outcome = Failed("boom", after=0) if number % 2 else Released()
        end = Succeeded() if number == RUNS - 1 else end
        now.worker.finish([job.end_with(end)]).require()
    return job_id


READINGS: dict[str, Callable[..., Page[Any]]] = {
    "attempts": lambda client, job_id, **page: client.jobs.attempts(job_id, **page),
    "events": lambda client, job_id, **page: client.jobs.events(job_id, **page),
    "effects": lambda client, job_id, **page: client.effects.list(job_id, **page),
}


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_the_pages_of_any_size_hold_each_line_once_and_in_order(client, job_id, name, limit):
    read = READINGS[name]
    everything = read(client, job_id)
    assert len(everything) >= RUNS
    assert everything.next_cursor is None
    pages = [read(client, job_id, limit=limit)]
    while pages[-1].next_cursor is not None:
        pages.append(read(client, job_id, limit=limit, cursor=pages[-1].next_cursor))
    assert [line for page in pages for line in page] == list(everything)
    assert {len(page) for page in pages[:-1]} <= {limit}
    assert 0 < len(pages[-1]) <= limit


def test_the_run_of_now_comes_last_with_its_own_cost_and_on_no_page_before(client, job_id):
    assert [run.outcome for run in client.jobs.attempts(job_id, limit=RUNS)][-1] == "succeeded"
    first = client.jobs.attempts(job_id, limit=RUNS - 1)
    assert "succeeded" not in [run.outcome for run in first]
    [last] = client.jobs.attempts(job_id, limit=RUNS, cursor=first.next_cursor)
    assert (last.outcome, last.started_at) == ("succeeded", T + (RUNS - 1) * timedelta(seconds=1))


@pytest.mark.parametrize("name", READINGS)
def test_the_cursor_of_another_listing_is_refused(client, job_id, name):
    for other in READINGS.keys() - {name}:
        cursor = READINGS[other](client, job_id, limit=1).next_cursor
        with pytest.raises(InvalidSetting, match="next_cursor"):
            READINGS[name](client, job_id, cursor=cursor)


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("limit", [0, -1, 1001, "5", True])
def test_a_page_has_a_size(client, job_id, name, limit):
    with pytest.raises(InvalidSetting, match="limit is"):
        READINGS[name](client, job_id, limit=limit)
