"""Flows as values: how they are put together, and what an end means to those that wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.flows.flow import (
    MOST_JOBS,
    Flow,
    Tie,
    cause_of,
    check_after,
    group,
    judge,
    state_when_ready,
)
from onward.core.jobs.job import JobState, NewJob
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidJob

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def new(name: str = "t", **options) -> NewJob:
    return NewJob(job_type=name, **options)


def test_each_last_job_goes_before_each_first_one():
    flow = group(new("a"), new("b").then(new("c"))).then(new("d"), new("e"))
    assert [job.job_type for job in flow.jobs] == ["a", "b", "c", "d", "e"]
    assert set(flow.links) == {(1, 2), (0, 3), (0, 4), (2, 3), (2, 4)}


def test_the_same_job_twice_is_two_jobs():
    one = new()
    assert len(one.then(one).jobs) == 2


flows = st.recursive(
    st.just(group(new())),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: group(*parts)),
        st.tuples(inner, inner).map(lambda pair: pair[0].then(pair[1])),
    ),
    max_leaves=8,
)


@given(flows, flows)
def test_no_flow_has_a_circle_and_what_comes_after_comes_after_all(left, right):
    both = left.then(right)
    assert all(before < behind for before, behind in both.links)
    assert len(both.links) == len(set(both.links))
    before: dict[int, set[int]] = {at: set() for at in range(len(both.jobs))}
    for start, end in both.links:
        before[end] |= {start} | before[start]
    # Sorted by where they begin, links of one start may come before those that lead to it.
    for _ in both.jobs:
        for start, end in both.links:
            before[end] |= {start} | before[start]
    size = len(left.jobs)
    for at in range(size, len(both.jobs)):
        assert set(range(size)) <= before[at]


@pytest.mark.parametrize("parts", [(), ("x",), (new().then, new())])
def test_what_is_no_flow_is_refused(parts):
    with pytest.raises(InvalidJob):
        group(*parts)


def test_too_large_a_flow_and_one_of_several_orgs_are_refused():
    with pytest.raises(InvalidJob, match=f"the most is {MOST_JOBS}"):
        group(*[new()] * (MOST_JOBS + 1))
    wide = group(*[new()] * 400)
    with pytest.raises(InvalidJob, match="put a job between"):
        wide.then(wide)
    with pytest.raises(InvalidJob, match="'a', 'b'"):
        new(org_id="a").then(new(org_id="b"))
    with pytest.raises(InvalidJob, match="to a later one"):
        Flow((new(), new()), ((1, 0),))


def test_a_placed_job_waits_for_its_own_and_for_those_before_it():
    first, other = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
    flow = new("a").then(new("b", after=(other,)))
    placed = flow.placed(flow.jobs, [first, "x"])
    assert [job.after for job in placed] == [(), (other, first)]
    assert check_after(new(after=(first.upper(), first))) == (first,)


STATES = [JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, None]


@pytest.mark.parametrize(
    ("needs", "on_failure", "expected"),
    [
        ("succeeded", "cancel", ["met", "broken", "broken", "broken"]),
        ("succeeded", "wait", ["met", "open", "broken", "broken"]),
        ("ended", "cancel", ["met"] * 4),
        ("ended", "wait", ["met"] * 4),
    ],
)
def test_what_an_end_means(needs, on_failure, expected):
    assert [judge(needs, on_failure, state) for state in STATES] == expected


def test_lists_are_taken_as_well_as_single_jobs():
    a, b, c = new("a"), new("b"), new("c")
    assert group([a, b]) == group(one for one in (a, b)) == group(a, b)
    assert a.then([b, c]) == a.then(b, c)
    assert group([a.then(b)], c) == group(a.then(b), c)
    for wrong in ("ab", [1], [], ["a"]):
        with pytest.raises(InvalidJob):
            group(wrong)  # type: ignore[arg-type]


def test_no_replay_is_awaited_of_a_death_that_is_final():
    assert judge("succeeded", "wait", JobState.DEAD, final=True) == "broken"


def test_the_cause_is_the_first_of_those_that_failed():
    said = cause_of([("2", JobState.DEAD, "b"), ("1", JobState.CANCELLED, "a")])
    assert said == ErrorRecord(reason="job 1 (a), which it waited for, was cancelled", cause="1")
    assert cause_of([("1", None, None)]).reason == "job 1, which it waited for, was removed"


@pytest.mark.parametrize(
    ("ahead", "limit_key", "expected"),
    [(1, None, "scheduled"), (1, "k", "scheduled"), (0, None, "queued"), (0, "k", "blocked")],
)
def test_where_a_job_goes_that_waits_for_no_other(ahead, limit_key, expected):
    assert state_when_ready(NOW + timedelta(hours=ahead), NOW, limit_key) == expected


def test_the_ties_are_bits_of_their_own():
    assert sum(Tie) == reduce(or_, Tie)
