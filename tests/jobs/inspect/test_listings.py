"""Listings of jobs: what each filter finds, in which order, and how far a page looks for few among many."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from onward import Client, Failed, InvalidSetting, JobFilter, NewJob, Succeeded
from onward.clients.sync.jobs import storing
from onward.core.jobs.filters import Order
from onward.core.jobs.ids import IdMaker, id_time
from onward.core.jobs.job import Job
from onward.core.page import Page
from onward.operations.jobs import listing

T = datetime(2026, 3, 1, tzinfo=UTC)
ORDERS = get_args(Order)


def put(client: Client, **options: Any) -> str:
    return client.at(T).enqueue(NewJob(**{"job_type": "t"} | options)).id


def found(client: Client, **conditions: Any) -> list[str]:
    return [job.id for job in client.at(T).jobs.list(JobFilter(**conditions))]


def pages(client: Client, where: JobFilter, **options: Any) -> Iterator[Page[Job]]:
    cursor = None
    while True:
        page = client.jobs.list(where, cursor=cursor, **options)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def end_one(client: Client, outcome: Any) -> None:
    [taken] = client.at(T).worker.claim("q:default", 1, worker_id="w-1")
    client.at(T).worker.finish([taken.end_with(outcome)])


@pytest.fixture
def working(client: Client) -> Client:
    client.at(T).worker.register("w-1", lease=timedelta(days=1))
    return client


@pytest.fixture
def short_reach(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(listing, "REACH", 5)
    return 5


@pytest.fixture
def spaced_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id is of a second of its own: a page ends with a whole millisecond."""
    seconds = itertools.count(1_800_000_000)
    monkeypatch.setattr(storing, "ids", IdMaker(lambda: next(seconds) * 10**9, os.urandom))


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ({"category": "notification"}, {"category": "notification"}),
        ({"request_id": "r-1"}, {"request_id": "r-1"}),
        ({"correlation_id": "c-1"}, {"correlation_id": "c-1"}),
        ({"actor_type": "user", "actor_id": "42"}, {"actor_type": "user"}),
        ({"actor_type": "user", "actor_id": "42"}, {"actor_id": "42"}),
        ({"tags": ["vip", "eu"]}, {"tags": ["vip"]}),
        ({"tags": ["vip", "eu"]}, {"tags": ["eu", "vip"]}),
    ],
)
@pytest.mark.parametrize("ended", [False, True])
def test_a_field_finds_live_and_ended_jobs_that_have_it(working, options, conditions, ended):
    put(working)
    put(working, tags=["eu"], request_id="r-2", actor_type="system", actor_id="43")
    if ended:
        end_one(working, Succeeded())
        end_one(working, Succeeded())
    wanted = put(working, **options)
    if ended:
        working.at(T).worker.claim("q:notification", 1, worker_id="w-1")
        end_all(working)
    assert found(working, **conditions) == [wanted]


def end_all(client: Client) -> None:
    for queue in ("q:default", "q:notification"):
        client.at(T).worker.claim(queue, 10, worker_id="w-1")
    running = client.at(T).jobs.list(JobFilter(state="running"))
    client.at(T).worker.finish([job.end_with(Succeeded()) for job in running])
    assert client.at(T).jobs.list(JobFilter(state="running")).items == []


def test_the_jobs_of_a_batch_a_parent_and_a_worker_are_found(working):
    members = [
        answer.id for answer in working.batches.enqueue([NewJob(job_type="t"), NewJob(job_type="t")]).jobs
    ]
    batch_id = working.jobs.get(members[0]).batch_id
    child = put(working, parent_id=members[0], priority=9)
    assert found(working, batch_id=batch_id) == members[::-1]
    assert found(working, parent_id=members[0]) == [child]
    assert found(working, parent_id=child) == []
    end_one(working, Succeeded())
    ended = [job.id for job in working.jobs.list(JobFilter(worker_id="w-1"))]
    assert len(ended) == 1
    assert ended[0] in members
    assert found(working, batch_id=batch_id, state="succeeded") == ended
    assert found(working, batch_id=batch_id) == members[::-1]


def test_several_states_are_listed_at_once(working):
    succeeded, retrying, queued = (put(working, priority=at) for at in (1, 2, 3))
    end_one(working, Succeeded())
    end_one(working, Failed({"error_class": "E"}, after=timedelta(hours=1)))
    assert found(working, state=("succeeded", "queued")) == [queued, succeeded]
    assert found(working, state=["retrying", "succeeded"]) == [retrying, succeeded]
    assert found(working, state=("dead", "cancelled")) == []


def test_the_oldest_can_come_first_page_by_page(working):  # S0-77
    ids = [put(working) for _ in range(5)]
    end_one(working, Succeeded())
    asked = list(pages(working, JobFilter(), order="oldest", limit=2))
    assert [job.id for page in asked for job in page] == ids
    assert [len(page) for page in asked] == [2, 2, 1]


@pytest.mark.parametrize("order", ORDERS)
def test_a_cursor_of_the_other_order_is_refused(working, order):
    for _ in range(2):
        put(working)
    [other] = set(ORDERS) - {order}
    page = working.jobs.list(order=order, limit=1)
    with pytest.raises(InvalidSetting, match="next_cursor of a page of the same listing"):
        working.jobs.list(order=other, cursor=page.next_cursor)


def test_an_unknown_order_is_refused(client):
    with pytest.raises(InvalidSetting, match="give 'newest' or 'oldest'"):
        client.jobs.list(order="random")


@pytest.mark.parametrize("order", ORDERS)
def test_a_page_looks_at_few_jobs_and_says_how_far(working, short_reach, spaced_ids, order):
    wanted = [put(working, job_type="rare" if n in {0, 19} else "t") for n in range(20)]
    for _ in range(8):
        end_one(working, Succeeded())
    asked = list(pages(working, JobFilter(job_type="rare"), order=order))
    rare = [wanted[19], wanted[0]] if order == "newest" else [wanted[0], wanted[19]]
    assert [job.id for page in asked for job in page] == rare
    assert len(asked) > 2
    assert not asked[1].items
    stops = [page.searched_to for page in asked if page.searched_to is not None]
    assert len(stops) == len(asked) - 1
    assert stops == sorted(stops, reverse=order == "newest")
    assert asked[-1].searched_to is None
    assert asked[-1].next_cursor is None


def test_what_an_index_finds_is_found_among_any_number(working, short_reach, spaced_ids):  # S0-18
    mine = put(working, subject="booking:42")
    for _ in range(20):
        put(working)
    for conditions in ({"subject": "booking:42"}, {"created_before": datetime(9999, 1, 1, tzinfo=UTC)}):
        page = working.jobs.list(JobFilter(**conditions), limit=100)
        assert mine in [job.id for job in page]
        assert page.next_cursor is None


def test_the_cursor_of_a_search_shows_no_job_of_another_org(working, short_reach, spaced_ids):
    theirs = {put(working, org_id="bolt") for _ in range(30)}
    page = working.for_org("acme").jobs.list()
    assert page.items == []
    assert page.next_cursor is not None
    shown = base64.urlsafe_b64decode(page.next_cursor + "==").decode()
    assert not [job_id for job_id in theirs if job_id in shown]
    assert page.searched_to in {id_time(job_id) for job_id in theirs}
