"""Workers and the jobs that they run are read page by page: nothing twice, nothing left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import NewJob

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def pages(read, limit):
    page = read(limit=limit)
    items = list(page)
    while page.next_cursor is not None:
        page = read(limit=limit, cursor=page.next_cursor)
        assert 0 < len(page) <= limit
        items += page
    return items


@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_live_workers_come_first_and_then_those_that_were_seen_last(client, limit):
    for number in range(6):
        # Two of them were seen at the same instant.
        client.at(NOW + number // 2 * SECOND).worker.register(f"w{number}", lease=timedelta(hours=1))
    for number in (1, 4):
        client.at(NOW + 5 * SECOND).worker.retire(f"w{number}")
    assert [worker.id for worker in pages(client.workers.list, limit)] == ["w5", "w3", "w2", "w0", "w4", "w1"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_the_jobs_that_a_worker_runs_are_read_oldest_first(client, limit):
    for worker in ("w", "other"):
        client.worker.register(worker)
    ids = [client.enqueue(NewJob(job_type="t")).id for _ in range(4)]
    client.worker.claim("q:default", 3, worker_id="w")
    client.worker.claim("q:default", 1, worker_id="other")
    jobs = pages(lambda **page: client.workers.running("w", **page), limit)
    assert [job.id for job in jobs] == ids[:3]
    assert not client.workers.running("nobody")
