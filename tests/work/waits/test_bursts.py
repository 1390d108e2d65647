"""Many enqueues of one key: debounce makes one job of a burst, throttle one of a period."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Category, Failed, InvalidJob, JobState, NewJob, Onward, Succeeded
from onward.core.jobs.debounce import Held, due_at
from onward.results import Job
from tests.work.waits.wait_runs import NOW

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def sync(app: Onward) -> Any:
    """A job type without a key."""

    @app.job(debounce="5s", debounce_max="1m")
    def sync(crm: str = "hub") -> None:
        """Do nothing."""

    return sync


def put(app: Onward, new: NewJob, seconds: float = 0) -> Any:
    """Enqueue at an instant of the test's own."""
    return app.client.at(NOW + seconds * SECOND).enqueue(new)


def run(app: Onward, seconds: float) -> Job:
    """Claim the one job that is due."""
    at = NOW + seconds * SECOND
    app.client.at(at).worker.promote()
    app.client.worker.register(worker := uuid4().hex, lease=timedelta(days=1000))
    [job] = app.client.at(at).worker.claim("q:default", worker_id=worker)
    return job


def test_a_burst_is_one_job_that_runs_when_it_was_quiet_for_so_long(app, sync):
    first = put(app, sync.build("a"))
    later = [put(app, sync.build(crm), seconds) for crm, seconds in (("b", 3), ("c", 6))]
    assert first.created
    assert [(one.id, one.created, one.change) for one in later] == [(first.id, False, "debounced")] * 2
    job = app.client.jobs.get(first.id)
    assert (job.state, job.run_at, job.payload) == (JobState.SCHEDULED, NOW + 11 * SECOND, {"crm": "c"})
    events = [event.event for event in app.client.jobs.events(first.id)]
    assert events == ["job.enqueued", "job.debounced", "job.debounced"]


def test_a_burst_that_never_ends_runs_at_most_so_long_after_its_first(app, sync):
    first = put(app, sync.build("a"))
    for seconds in range(4, 100, 4):
        put(app, sync.build("b"), seconds)
    job = app.client.jobs.get(first.id)
    # It keeps its place in the queue, however often it is asked for.
    assert (job.state, job.run_at) == (JobState.QUEUED, NOW + MINUTE)


def test_without_a_longest_wait_it_is_put_off_as_long_as_the_burst_lasts(app, sync):
    quiet = sync.using(debounce_max=None)
    first = put(app, quiet.build("a"))
    for seconds in range(4, 100, 4):
        put(app, quiet.build("b"), seconds)
    assert app.client.jobs.get(first.id).run_at == NOW + 101 * SECOND


def test_what_is_asked_for_while_the_job_runs_is_run_after_it(app, sync):
    first = put(app, sync.build("a"))
    job = run(app, 5)
    asked = put(app, sync.build("b"), 6)
    assert (asked.id, asked.change) == (first.id, "rerun_requested")
    app.client.at(NOW + 7 * SECOND).worker.finish([job.end_with(Succeeded())]).require()
    again = app.client.jobs.get(first.id)
    assert (again.state, again.run_at, again.payload) == (JobState.SCHEDULED, NOW + 11 * SECOND, {"crm": "b"})


def test_what_is_asked_for_after_its_end_is_a_new_job(app, sync):
    first = put(app, sync.build("a"))
    app.client.at(NOW + 6 * SECOND).worker.finish([run(app, 5).end_with(Succeeded())]).require()
    assert put(app, sync.build("b"), 7).created
    assert app.client.jobs.get(first.id).payload == {"crm": "a"}


def test_a_job_that_waits_to_be_tried_again_keeps_its_back_off(app, sync):
    first = put(app, sync.build("a"))
    failed = Failed("no", after="10m")
    app.client.at(NOW + 6 * SECOND).worker.finish([run(app, 5).end_with(failed)]).require()
    put(app, sync.build("b"), 7)
    job = app.client.jobs.get(first.id)
    assert (job.run_at, job.payload) == (NOW + 606 * SECOND, {"crm": "b"})


def test_a_burst_is_of_one_org_one_type_and_one_key(app, sync):
    made = [
        put(app, sync.using(org_id=org, key=key).build("a"))
        for org in (None, "acme", "bolt")
        for key in (None, "k")
    ]
    assert len({one.id for one in made}) == 6
    with app.context(org_id="acme"):
        assert put(app, sync.build("b")).id == made[2].id


def test_a_template_makes_the_key_of_a_burst(app):
    @app.job(key="sync:{crm}", debounce="5s")
    def sync(crm: str, n: int) -> None:
        """Do nothing."""

    made = [put(app, sync.build(crm, n)).id for n, crm in enumerate("aba")]
    assert made[0] == made[2] != made[1]
    assert app.client.jobs.get(made[0]).payload == {"crm": "a", "n": 2}


def test_with_coalesce_the_payloads_of_a_burst_are_merged(app):
    @app.job(debounce="5s", debounce_max="1m", coalesce=lambda old, new: {"ids": old["ids"] + new["ids"]})
    def index(ids: list[int]) -> None:
        """Do nothing."""

    first = put(app, index.build([1]))
    put(app, index.build([2]), 3)
    job = app.client.jobs.get(first.id)
    assert (job.payload, job.run_at) == ({"ids": [1, 2]}, NOW + 8 * SECOND)
    held = run(app, 8)
    # What runs now is merged, too: it may yet fail.
    put(app, index.build([3]), 9)
    app.client.at(NOW + 10 * SECOND).worker.finish([held.end_with(Succeeded())]).require()
    again = app.client.jobs.get(first.id)
    assert (again.payload, again.run_at) == ({"ids": [1, 2, 3]}, NOW + 14 * SECOND)


def test_many_in_one_call_are_one_burst(app, sync):
    handles = app.client.at(NOW).enqueue_many([sync.build(crm) for crm in "abc"])
    assert len({one.id for one in handles}) == 1
    assert app.client.jobs.get(handles[0].id).payload == {"crm": "c"}


def test_a_category_that_takes_explicit_times_only_can_be_debounced(request, tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/x.db", categories=[Category(name="slow", scheduling="explicit")])

    @app.job(category="slow", debounce="5s")
    def notify() -> None:
        """Do nothing."""

    assert notify.enqueue().state == JobState.SCHEDULED
    app.close()


def test_throttle_gives_the_first_job_of_a_period_to_all_who_ask(app):
    @app.job(throttle="1m")
    def report(n: int) -> None:
        """Do nothing."""

    first = put(app, report.build(1))
    assert put(app, report.build(2), 59).id == first.id
    app.client.at(NOW + 2 * SECOND).worker.finish([run(app, 1).end_with(Succeeded())]).require()
    again = put(app, report.build(3), 59.5)
    assert (again.id, again.created, again.state) == (first.id, False, JobState.SUCCEEDED)
    assert put(app, report.build(4), 61).created
    assert app.client.jobs.get(first.id).payload == {"n": 1}


def test_throttle_is_per_org_and_by_key_if_there_is_one(app):
    @app.job
    def report(n: int) -> None:
        """Do nothing."""

    slow = report.using(throttle="1m")
    made = [put(app, slow.using(org_id=org).build(1)).id for org in (None, "acme", "acme")]
    assert len(set(made)) == 2
    made += [put(app, slow.using(key=key).build(1)).id for key in ("a", "b", "a")]
    assert len(set(made)) == 4


def test_throttle_holds_while_its_job_still_waits(app):
    @app.job(throttle="1m")
    def report() -> None:
        """Do nothing."""

    first = put(app, report.build())
    assert put(app, report.build(), 300).id == first.id


def test_the_later_of_two_ways_decides_and_none_takes_it_back(app, sync):
    throttled = sync.using(throttle="1m").build()
    assert (throttled.debounce, throttled.unique, throttled.key) == (None, MINUTE, "sync:throttle")
    plain = sync.using(debounce=None, debounce_max=None).build()
    assert (plain.key, plain.delay, plain.on_conflict) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debounce": "soon"}, "debounce is 'soon'"),
        ({"debounce": 0}, "debounce is"),
        ({"debounce": "5s", "throttle": "5s"}, "debounce and throttle are both set"),
        ({"debounce_max": "5s"}, "only with debounce"),
        ({"debounce": "5s", "debounce_max": "1s"}, "at least as long"),
        ({"debounce": "5s", "delay": "1m"}, "leave out run_at, delay and unique"),
        ({"debounce": "5s", "key": "k", "unique": "1h"}, "leave out run_at, delay and unique"),
        ({"debounce": "5s", "on_conflict": "raise"}, "on_conflict is 'raise'"),
        ({"throttle": "5s", "on_conflict": "replace"}, "throttle sets how long a key is held"),
        ({"throttle": "5s", "key": "k", "unique": "1h"}, "throttle sets how long a key is held"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(app, options, message):
    @app.job
    def report() -> None:
        """Do nothing."""

    with pytest.raises(InvalidJob, match=message):
        report.using(**options).enqueue()
    assert app.client.jobs.count().total(JobState.QUEUED) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debounce": "5s", "unique": "active"}, "leave out run_at, delay and unique"),
        ({"debounce": "5s", "on_conflict": "raise"}, "on_conflict is 'raise'"),
        ({"throttle": "5s", "unique": "forever"}, "leave out unique"),
        ({"throttle": "5s", "on_conflict": "replace"}, "give on_conflict='return' or 'raise'"),
    ],
)
def test_what_does_not_go_together_is_refused_when_the_job_type_is_defined(app, options, message):
    with pytest.raises(InvalidJob, match=message):
        app.job(name="report", **options)(lambda: None)
    assert app.jobs == {}


@given(
    asks=st.lists(st.integers(1, 90), min_size=1, max_size=30),
    quiet=st.integers(1, 60),
    longest=st.none() | st.integers(60, 300),
)
def test_a_burst_is_served_within_its_bounds(asks, quiet, longest):
    now = due = NOW + quiet * SECOND
    at = NOW
    for gap in asks:
        at += gap * SECOND
        if at > due:
            break
        held = Held(JobState.SCHEDULED, NOW, None, due, 0, at)
        due = due_at(held, quiet * SECOND, None if longest is None else longest * SECOND)
        now = at
        assert due <= at + quiet * SECOND
        assert due == at + quiet * SECOND or due == NOW + (longest or 0) * SECOND
    assert due >= min(now, NOW + (longest or 10**6) * SECOND)
