"""The rules of batches: what is counted, what is due, and who may add."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import InvalidJob, JobState, NewJob
from onward.core.flows.batch import (
    BatchTally,
    check_callback,
    check_open,
    counted,
    due_callbacks,
    org_of_batch,
)
from onward.core.flows.flow import Tie
from onward.errors import BatchClosed

MARKS = {
    JobState.SUCCEEDED: Tie.COUNTED_SUCCEEDED,
    JobState.DEAD: Tie.COUNTED_DEAD,
    JobState.CANCELLED: Tie.COUNTED_CANCELLED,
}
ENDS = list(MARKS)
ID = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(("dead", "cancelled"), list(product((0, 1), (0, 1))))
def test_one_dead_or_cancelled_job_makes_it_a_failure_and_complete_is_always_due(dead, cancelled):
    outcome = "on_failure" if dead or cancelled else "on_success"
    assert due_callbacks(BatchTally(5, dead, cancelled)) == (outcome, "on_complete")


def test_a_batch_without_jobs_has_succeeded():
    assert due_callbacks(BatchTally()) == ("on_success", "on_complete")


@given(st.lists(st.lists(st.sampled_from(ENDS), min_size=1, max_size=4), max_size=20))
def test_however_often_jobs_end_each_is_counted_once_as_what_it_came_to_last(histories):
    tally = BatchTally()
    for history in histories:
        marks = Tie.BATCHED
        for state in history:
            tally = tally.without(marks).plus(state)
            marks = Tie.BATCHED | MARKS[state]
    last = [history[-1] for history in histories]
    assert tally == BatchTally(*(last.count(state) for state in ENDS))


def test_a_job_that_was_counted_and_is_live_again_is_counted_where_it_is_now():
    parts = [(JobState.QUEUED, int(Tie.COUNTED_DEAD), 2), (JobState.RUNNING, 0, 1), (JobState.BLOCKED, 0, 1)]
    assert counted(BatchTally(succeeded=4, dead=3), parts) == {
        "waiting": 3, "running": 1, "succeeded": 4, "dead": 1, "cancelled": 0,
    }  # fmt: skip


def test_an_end_that_is_not_settled_is_counted_already():
    parts = [(JobState.SUCCEEDED, int(Tie.COUNTED_DEAD), 1), (JobState.CANCELLED, 0, 2)]
    assert counted(BatchTally(dead=1), parts) == {
        "waiting": 0, "running": 0, "succeeded": 1, "dead": 0, "cancelled": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "inside", "refusal"),
    [
        ({}, False, None),
        ({"closed"}, True, None),
        ({"closed"}, False, "only its own jobs may add"),
        ({"cancelled"}, True, "was cancelled"),
        ({"closed", "cancelled"}, True, "was cancelled"),
        ({"closed", "ended"}, True, "has ended"),
    ],
)
def test_who_may_add_to_a_batch(state, inside, refusal):
    told = {name: name in state for name in ("closed", "cancelled", "ended")}

    def ask() -> None:
        check_open(ID, told, of_org=None, new=NewJob(job_type="t"), inside=inside)

    if refusal is None:
        ask()
        return
    with pytest.raises(BatchClosed, match=refusal):
        ask()


def test_a_batch_is_of_one_org():
    told = dict.fromkeys(("closed", "cancelled", "ended"), False)
    with pytest.raises(InvalidJob, match="is of org 'a', and this job of 'b'"):
        check_open(ID, told, of_org="a", new=NewJob(job_type="t", org_id="b"), inside=False)
    assert org_of_batch([NewJob(job_type="t", org_id="a")] * 2) == "a"
    with pytest.raises(InvalidJob, match="'a', None; make one for each"):
        org_of_batch([NewJob(job_type="t", org_id="a"), NewJob(job_type="t")])


@pytest.mark.parametrize("options", [{"after": (ID,)}, {"batch_id": ID}])
def test_a_callback_waits_for_its_batch_and_nothing_else(options):
    with pytest.raises(InvalidJob, match="on_success"):
        check_callback("on_success", NewJob(job_type="t", **options))
