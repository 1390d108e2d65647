"""Calls with so many jobs that they are parted into several statements: still all or none, and in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onward import AsyncClient, DuplicateJob, InvalidJob, JobState, NewJob, Succeeded
from onward.clients.jobs.storing import _PART
from onward.core.policy.category import Lifetime
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from tests.stores.postgres.postgres_schema import clean_schema

MANY = 2 * _PART + 7


def keyed(numbers) -> list[NewJob]:
    return [NewJob(job_type="t", key=f"k{number}", payload={"n": number}) for number in numbers]


def test_every_job_of_a_parted_call_is_stored_and_runs_in_the_order_of_asking(client):  # S0-48
    answers = client.enqueue_many(keyed(range(MANY)))
    assert all(answer.created and answer.state == JobState.QUEUED for answer in answers)
    assert len({answer.id for answer in answers}) == MANY
    client.worker.register("w")
    claimed = client.worker.claim("q:default", MANY, worker_id="w")
    assert [job.id for job in claimed] == [answer.id for answer in answers]
    assert [job.payload["n"] for job in claimed] == list(range(MANY))
    assert [event.event for event in client.jobs.events(answers[-1].id)] == ["job.enqueued", "job.started"]


def test_keys_that_are_taken_or_repeated_across_the_parts_find_their_holders(client):
    [held] = client.enqueue_many(keyed([_PART + 1]))
    numbers = [*range(MANY), 0, MANY - 1]
    answers = client.enqueue_many(keyed(numbers))
    assert [n for n, answer in zip(numbers, answers, strict=True) if not answer.created] == [
        _PART + 1, 0, MANY - 1
    ]  # fmt: skip
    assert answers[_PART + 1].id == held.id
    assert [answers[-2].id, answers[-1].id] == [answers[0].id, answers[MANY - 1].id]
    assert client.jobs.count().total(JobState.QUEUED) == MANY


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"payload": {"x": b"bytes"}}, r"payload at \$\.x"),
        ({"priority": 1001}, "priority is 1001"),
        ({"queue": ["q"]}, "queue is a list"),
        ({"key": ""}, "key is empty"),
        ({"key": None, "unique": "active"}, "unique is .active., but the job has no key to hold"),
    ],
)
def test_a_bad_job_in_the_last_part_is_named_and_leaves_nothing_of_the_first(client, bad, why):  # S3-3
    with pytest.raises(InvalidJob, match=rf"^jobs\[{MANY}\]: {why}"):
        client.enqueue_many([*keyed(range(MANY)), NewJob(**{"job_type": "t", "key": "bad"} | bad)])
    assert client.jobs.count().total(JobState.QUEUED) == 0
    assert all(answer.created for answer in client.enqueue_many(keyed([0, MANY - 1])))


def test_a_duplicate_that_raises_in_the_last_part_leaves_nothing_of_the_first(client):
    client.enqueue(NewJob(job_type="t", key="held"))
    with pytest.raises(DuplicateJob):
        client.enqueue_many([*keyed(range(MANY)), NewJob(job_type="t", key="held", on_conflict="raise")])
    assert client.jobs.count().total(JobState.QUEUED) == 1


def test_callers_with_the_same_keys_in_opposite_orders_make_each_job_once(client):
    # Parts take their keys in the order of asking, so these meet in a deadlock, which no caller sees.
    orders = [range(MANY), range(MANY - 1, -1, -1), [*range(_PART, MANY), *range(_PART)]]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda order: client.enqueue_many(keyed(order)), orders))
    assert sum(answer.created for each in answers for answer in each) == MANY
    assert client.jobs.count().total(JobState.QUEUED) == MANY
    assert [answer.id for answer in answers[0]] == [answer.id for answer in reversed(answers[1])]


def test_jobs_of_many_shapes_keep_what_each_was_given(client):  # S1-8, S2-5
    soon = datetime.now(UTC) + timedelta(hours=1)
    new = [
        NewJob(job_type="a", payload={"n": 1}),
        NewJob(job_type="b", payload={"n": [1, {"deep": 0.5}]}, org_id="org", key="k", tags=["x", "y"]),
        NewJob(job_type="c", run_at=soon, priority=1, request_id="r", key="k", unique="forever"),
        NewJob(job_type="d", delay=timedelta(minutes=1), max_attempts=2, key="l", unique="active"),
        NewJob(job_type="e", timeout=timedelta(seconds=3), category="planning", subject="s", tags=[]),
    ]
    stored = [client.jobs.get(answer.id) for answer in client.enqueue_many(new)]
    assert [job.job_type for job in stored] == list("abcde")
    assert [job.payload for job in stored] == [each.payload for each in new]
    assert [job.tags for job in stored] == [None, ["x", "y"], None, None, []]
    assert [job.key for job in stored] == [None, "k", "k", "l", None]
    assert [job.state for job in stored] == ["queued", "queued", "scheduled", "scheduled", "queued"]
    assert stored[2].run_at == soon
    assert (stored[2].priority, stored[3].max_attempts, stored[4].timeout_micros) == (1, 2, 3_000_000)


@pytest.mark.parametrize(
    ("days", "free"), [(0, {"active"}), (2, {"active", "day"}), (9999, {"active", "day"})]
)
def test_keys_of_one_call_are_held_as_long_as_each_job_says(client, days, free):
    client.worker.register("w")
    lifetimes: dict[str, Lifetime] = {"active": "active", "day": timedelta(days=1), "forever": "forever"}
    client.enqueue_many(NewJob(job_type="t", key=key, unique=unique) for key, unique in lifetimes.items())
    client.worker.finish(
        [job.end_with(Succeeded()) for job in client.worker.claim("q:default", 3, worker_id="w")]
    ).require()
    later = datetime.now(UTC) + timedelta(days=days)
    answers = client.at(later).enqueue_many([NewJob(job_type="t", key=key) for key in lifetimes])
    assert {key for key, answer in zip(lifetimes, answers, strict=True) if answer.created} == free


def test_a_key_given_twice_in_one_call_raises_where_that_was_asked_for(client):
    with pytest.raises(DuplicateJob, match="given twice in one call") as refused:
        client.enqueue_many([NewJob(job_type="t", key="k", on_conflict="raise")] * 2)
    assert refused.value.job_id is None
    assert client.jobs.count().total(JobState.QUEUED) == 0


@pytest.mark.parametrize("field", ["run_at", "deadline"])
@pytest.mark.parametrize(
    "instant",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))),
        datetime(2150, 1, 1, tzinfo=UTC),
    ],
)
def test_an_instant_that_could_not_be_read_back_is_refused(client, field, instant):
    with pytest.raises(InvalidJob, match=f"{field} is .*; give a time from the year 1970 to 2149"):
        client.enqueue(NewJob(job_type="t", **{field: instant}))


@pytest.mark.parametrize(
    "instant", [datetime(1970, 1, 1, tzinfo=UTC), datetime(2149, 12, 31, 23, 59, 59, 999_999, UTC)]
)
def test_an_instant_is_kept_to_the_microsecond(client, instant):
    job = client.jobs.get(client.enqueue(NewJob(job_type="t", run_at=instant, deadline=instant)).id)
    assert (job.run_at, job.deadline) == (instant, instant)


@pytest.mark.parametrize("mistaken", [True, 1.0])
def test_what_only_equals_a_number_is_refused_beside_that_number(client, mistaken):
    with pytest.raises(InvalidJob, match="priority"):
        client.enqueue_many([NewJob(job_type="t", priority=1), NewJob(job_type="t", priority=mistaken)])


@pytest.mark.anyio
async def test_the_async_client_parts_a_call_as_well(postgres_url):
    with clean_schema(postgres_url) as store:
        own = AsyncPostgresStore(store.url, schema=store.prefix.rstrip("."))
        async with AsyncClient(store=own) as client:
            answers = await client.enqueue_many(keyed(range(MANY)))
            assert [answer.created for answer in answers] == [True] * MANY
            assert (await client.jobs.count()).total(JobState.QUEUED) == MANY
