"""Listings of schedules and their runs are read page by page: nothing twice, nothing left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import InvalidSetting
from onward.operations.schedules.fire import Known

T = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def fired(client):
    """Two schedules that were fired three times each, at the same instants, and run once by hand."""
    for name in ("b", "a"):
        client.at(T).schedules.add(name, "report", every="1m", anchor=T)
    for minute in (1, 2, 3):
        client.at(T + minute * MINUTE).worker.schedules.fire(Known({"report"}))
    client.at(T + 3 * MINUTE).schedules.run_now("a")
    return client


def pages(read, limit):
    """All items of a listing, and the sizes of its pages."""
    page = read(limit=limit)
    items, sizes = list(page), [len(page)]
    while page.next_cursor is not None:
        page = read(limit=limit, cursor=page.next_cursor)
        items += page
        sizes.append(len(page))
    return items, sizes


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_of_all_runs_are_the_runs_newest_first(fired, limit):
    runs, sizes = pages(fired.schedules.runs, limit)
    assert runs == list(fired.schedules.runs(limit=100))
    assert len(set(runs)) == 7
    assert [run.fired_at for run in runs] == sorted((run.fired_at for run in runs), reverse=True)
    assert all(size == limit for size in sizes[:-1])
    assert 0 < sizes[-1] <= limit


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_of_the_runs_of_one_schedule_are_its_runs(fired, limit):
    runs, _ = pages(lambda **page: fired.schedules.runs("a", **page), limit)
    assert runs == list(fired.schedules.runs("a"))
    assert [run.source for run in runs].count("run_now") == 1
    assert {run.schedule for run in runs} == {"a"}
    assert len(runs) == 4


def test_pages_of_schedules_are_in_the_order_of_their_names(fired):
    schedules, sizes = pages(fired.schedules.list, 1)
    assert [schedule.name for schedule in schedules] == ["a", "b"]
    assert sizes == [1, 1]
    assert all(schedule.last_run is not None for schedule in schedules)


def test_a_cursor_of_another_listing_is_refused(fired):
    cursor = fired.schedules.runs(limit=1).next_cursor
    for refused in (
        lambda: fired.schedules.runs("a", cursor=cursor),
        lambda: fired.schedules.list(cursor=cursor),
        lambda: fired.workers.list(cursor=cursor),
        lambda: fired.queues.list(cursor=cursor),
        lambda: fired.workers.running("w", cursor=cursor),
    ):
        with pytest.raises(InvalidSetting, match="cursor"):
            refused()
