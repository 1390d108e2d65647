"""The rules of limits: what they take, whose permits a job needs, and how many may be made ready."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import InvalidJob, InvalidSetting, Limit, NewJob
from onward.core.limits.admission import MOST_READY, LimitStanding, Terms, admission
from onward.core.limits.limit import add_limit, limit_key, name_of, read_limit, value_of

SECOND = 1_000_000
JOB = NewJob(job_type="sync", org_id="acme", payload={"customer": "c1"})


async def later(job: NewJob) -> str:
    return job.job_type


@pytest.mark.parametrize(
    ("option", "limit"),
    [
        (None, None),
        (5, Limit(5, name="sync")),
        ("org", Limit(1, per="org", name="sync")),
        (Limit(rate="5/s"), Limit(rate="5/s", name="sync")),
        (Limit(3, name="shared"), Limit(3, name="shared")),
    ],
)
def test_a_definition_says_its_limit_in_short_or_in_full(option: Any, limit: Limit | None):
    assert read_limit("sync", option) == limit


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Limit, "give it concurrency=, rate= or ordered=True"),
        (lambda: Limit(0), "concurrency is 0"),
        (lambda: Limit(1, burst=2), "give rate= too"),
        (lambda: Limit(rate="often"), "rate is 'often'"),
        (lambda: Limit(1, per="customer"), "give 'type', 'org' or a function"),  # type: ignore[arg-type]
        (lambda: Limit(1, per=later), "make it a plain function"),  # type: ignore[arg-type]
        (lambda: Limit(1, per=lambda: "x"), "a function of one argument"),  # type: ignore[arg-type, misc]
        (lambda: Limit(1, name="a/b"), "leave out '/'"),
        (lambda: Limit(1, name=""), "is empty"),
        (lambda: Limit(1, ordered="yes"), "ordered is 'yes'"),  # type: ignore[arg-type]
        (lambda: read_limit("sync", True), "job type 'sync': limit is True"),
        (lambda: read_limit("sync", "customer"), "give a number, 'org', a function"),
        (lambda: read_limit("a/b", 3), "job type 'a/b'"),
        (lambda: add_limit({"s": Limit(3, name="s")}, Limit(4, name="s"), "t"), "allows something else"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_definition(make: Any, said: str):
    with pytest.raises(InvalidSetting, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("limit", "key"),
    [
        (Limit(1, name="sync"), "sync"),
        (Limit(1, per="org", name="sync"), "sync/acme"),
        (Limit(1, per=lambda job: job.payload["customer"], name="n"), "n/c1"),
        (Limit(1, per=lambda _: 42, name="n"), "n/42"),
        (Limit(1, per=lambda _: "a/b", name="n"), "n/a/b"),
    ],
)
def test_a_key_is_the_name_of_the_limit_and_whose_permits_are_needed(limit: Limit, key: str):
    assert limit_key(limit, JOB) == key
    assert (name_of(key), value_of(key)) == (limit.name, key.partition("/")[2] or None)


def test_jobs_without_an_org_share_permits_of_their_own():
    assert limit_key(Limit(1, per="org", name="sync"), NewJob(job_type="sync")) == "sync/"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda job: job.payload["absent"], "its function raised KeyError: 'absent'"),
        (lambda _: None, "its function gave None"),
        (lambda _: "", "its function gave ''"),
        (lambda _: True, "its function gave True"),
    ],
)
def test_a_function_that_gives_no_text_is_named(function: Any, said: str):
    with pytest.raises(InvalidJob, match=re.escape(said)):
        limit_key(Limit(1, per=function, name="sync"), JOB)


@pytest.mark.parametrize(
    ("terms", "standing", "jobs"),
    [
        (Terms(concurrency=5), LimitStanding(), 5),
        (Terms(concurrency=5), LimitStanding(ready=2, running=2), 1),
        (Terms(concurrency=5), LimitStanding(running=7), 0),
        (Terms(concurrency=5), LimitStanding(running=2, begun=9, away=9), 3),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(), 50),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(running=100), 400),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(ready=200, running=100), 200),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(ready=201, running=100), 0),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(running=MOST_READY), MOST_READY),
        (Terms(concurrency=MOST_READY * 9), LimitStanding(ready=MOST_READY), 0),
        (Terms(ordered=True), LimitStanding(), 1),
        (Terms(ordered=True), LimitStanding(running=1), 0),
        (Terms(ordered=True), LimitStanding(away=1), 0),
        (Terms(ordered=True), LimitStanding(begun=1), 1),
        (Terms(ordered=True), LimitStanding(begun=1, away=5), 1),
        (Terms(concurrency=4, ordered=True), LimitStanding(begun=1, away=1), 3),
        (Terms(rate="1/s"), LimitStanding(), 1),
        (Terms(rate="1/s", burst=3), LimitStanding(), 3),
        (Terms(rate="1/s", burst=3), LimitStanding(ready=2), 1),
        (Terms(rate="1/s", burst=3), LimitStanding(running=50), 3),
        (Terms(rate="1/s", burst=3, concurrency=2), LimitStanding(), 2),
        (Terms(rate="1/s", burst=3), LimitStanding(paid_at=2 * SECOND), 1),
        (Terms(rate="100/s"), LimitStanding(), 10),
    ],
)
def test_as_many_are_made_ready_as_permits_and_rate_allow(terms: Terms, standing: LimitStanding, jobs: int):
    assert admission(terms, standing, 0).jobs == jobs


def test_a_rate_says_when_the_next_one_may_go():
    rate = Terms(rate="1/s")
    assert admission(rate, LimitStanding(paid_at=SECOND), 400_000).again == SECOND
    assert admission(rate, LimitStanding(ready=1), 0).again == SECOND, (
        "what waits to be started is looked at again"
    )
    assert admission(Terms(concurrency=1), LimitStanding(running=1), 0).again is None


def test_what_an_operator_sets_counts_for_more_than_what_is_declared():
    declared = '{"concurrency":5,"rate":"1/s","burst":9,"ordered":true}'
    assert Terms.read(declared, '{"concurrency":2}') == Terms(
        concurrency=2, rate="1/s", burst=9, ordered=True
    )
    assert Terms.read(declared, None).concurrency == 5


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 30))),
)
def test_no_span_of_time_sees_more_starts_than_the_rate_and_one_burst(
    per_second: int, burst: int, steps: list[tuple[int, int]]
):
    terms = Terms(rate=f"{per_second}/s", burst=burst)
    now, paid_at, starts = 0, None, list[int]()
    for pause, wanted in steps:
        now += pause
        jobs = min(wanted, admission(terms, LimitStanding(paid_at=paid_at), now).jobs)
        if jobs:
            paid_at = terms.paid(paid_at, now, jobs)
            starts += [now] * jobs
    for first, since in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= burst + (starts[last] - since) * per_second / SECOND
