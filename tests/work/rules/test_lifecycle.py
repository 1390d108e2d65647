"""The state machine: every outcome of an attempt, below and at the last one, and what it writes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.categories import HUBSPOT
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import ENDED, Job, JobState
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import (
    MOVES,
    Cancelled,
    End,
    Failed,
    Lost,
    Outcome,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
    settle,
)
from onward.core.work.retry import LONGEST_DELAY, RetryPolicy

SECOND = timedelta(seconds=1)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ERROR = ErrorRecord("TimeoutError", "no answer")
POLICY = RetryPolicy(kind="exponential", base=10 * SECOND, jitter=False)

S = JobState

CLAIMED = Job(
    id=first_id_at(NOW), org_id=None, project_id=None, job_type="t", queue="q:default", category="default",
    state=S.RUNNING, priority=5, run_at=NOW, attempt=2, max_attempts=5, lease=7, worker_id="w1", key=None,
    subject=None, payload={}, progress=None, cost_micros=0, actor_type=None, actor_id=None, request_id=None,
    correlation_id=None, traceparent=None, parent_id=None, batch_id=None, tags=None, cancel_requested_at=None,
    rerun_requested=False, deadline=None, timeout_micros=None, waits=3, crashes=0, error=None, created_at=NOW,
    started_at=NOW, result=None, outcome=None, ended_at=None,
)  # fmt: skip


def job(**changes: Any) -> Job:
    return msgspec.structs.replace(CLAIMED, **changes)


LAST = job(attempt=5)

# outcome, then (state, event, outcome, attempt, waits, crashes, delay) before the last attempt and at it.
TABLE: dict[str, tuple[Outcome, tuple[Any, ...], tuple[Any, ...]]] = {
    "succeeded": (  # S0-21, S0-23
        Succeeded({"n": 1}),
        (S.SUCCEEDED, "job.succeeded", "succeeded", 2, 3, 0, 0),
        (S.SUCCEEDED, "job.succeeded", "succeeded", 5, 3, 0, 0),
    ),
    "skipped": (  # R11
        Skip("nothing to do"),
        (S.SUCCEEDED, "job.skipped", "skipped", 2, 3, 0, 0),
        (S.SUCCEEDED, "job.skipped", "skipped", 5, 3, 0, 0),
    ),
    "snoozed": (  # R11
        Snooze(60 * SECOND),
        (S.SCHEDULED, "job.snoozed", "snoozed", 1, 3, 0, 60),
        (S.SCHEDULED, "job.snoozed", "snoozed", 4, 3, 0, 60),
    ),
    "released": (
        Released(),
        (S.QUEUED, "job.released", "released", 1, 3, 0, 0),
        (S.QUEUED, "job.released", "released", 4, 3, 0, 0),
    ),
    "released with a delay": (  # R13: an unknown job type
        Released(5 * SECOND),
        (S.SCHEDULED, "job.released", "released", 1, 3, 0, 5),
        (S.SCHEDULED, "job.released", "released", 4, 3, 0, 5),
    ),
    "cancelled": (
        Cancelled("asked"),
        (S.CANCELLED, "job.cancelled", "cancelled", 2, 3, 0, 0),
        (S.CANCELLED, "job.cancelled", "cancelled", 5, 3, 0, 0),
    ),
    "failed": (  # R4, R5, S0-24, S0-25, S1-25, S2-21, S2-22, S3-24
        Failed(ERROR),
        (S.SCHEDULED, "job.failed", "failed", 2, 3, 0, 20),
        (S.DEAD, "job.deadlettered", "failed", 5, 3, 0, 0),
    ),
    "failed with its own delay": (
        Failed(ERROR, after=7 * SECOND),
        (S.SCHEDULED, "job.failed", "failed", 2, 3, 0, 7),
        (S.DEAD, "job.deadlettered", "failed", 5, 3, 0, 0),
    ),
    "failed for good": (  # S3-22
        Failed(ERROR, retryable=False),
        (S.DEAD, "job.deadlettered", "failed", 2, 3, 0, 0),
        (S.DEAD, "job.deadlettered", "failed", 5, 3, 0, 0),
    ),
    "rate limited": (  # R12
        RateLimited(90 * SECOND, ERROR),
        (S.SCHEDULED, "job.rate_limited", "rate_limited", 1, 4, 0, 90),
        (S.SCHEDULED, "job.rate_limited", "rate_limited", 4, 4, 0, 90),
    ),
    "rate limited, and counted": (  # R12: HubSpot
        RateLimited(90 * SECOND, ERROR, counted=True),
        (S.SCHEDULED, "job.failed", "failed", 2, 3, 0, 90),
        (S.DEAD, "job.deadlettered", "failed", 5, 3, 0, 0),
    ),
    "lost": (  # R4, R6: a crash is an attempt, and the first one is retried at once
        Lost(),
        (S.SCHEDULED, "job.failed", "lost", 2, 3, 1, 0),
        (S.DEAD, "job.deadlettered", "lost", 5, 3, 1, 0),
    ),
}


def written(claimed: Job, outcome: Outcome) -> tuple[Any, ...]:
    to = settle(claimed, outcome, POLICY)
    return (to.state, to.event, to.outcome, to.attempt, to.waits, to.crashes, to.delay / SECOND)


@pytest.mark.parametrize("name", TABLE)
def test_before_the_last_attempt_an_outcome_does_what_the_table_says(name):
    outcome, before, _ = TABLE[name]
    assert written(CLAIMED, outcome) == before


@pytest.mark.parametrize("name", TABLE)
def test_at_the_last_attempt_an_outcome_does_what_the_table_says(name):
    outcome, _, at_last = TABLE[name]
    assert written(LAST, outcome) == at_last


def test_a_job_of_one_attempt_is_never_retried():  # R4
    for outcome in (Failed(ERROR), Lost(), RateLimited(SECOND, ERROR, counted=True)):
        assert settle(job(attempt=1, max_attempts=1), outcome, POLICY).state == S.DEAD


def test_the_back_off_follows_the_number_of_the_attempt():  # R5, S1-25
    delays = [settle(job(attempt=n), Failed(ERROR), POLICY).delay / SECOND for n in (1, 2, 3, 4)]
    assert delays == [10, 20, 40, 80]


def test_a_failure_sets_the_job_back_with_its_attempt_counted():  # S1-26, S1-27, S2-21
    to = settle(job(attempt=1), Failed(ERROR), POLICY)
    assert (to.state, to.attempt, to.error, to.ends) == (S.SCHEDULED, 1, ERROR, False)


def test_the_jitter_of_a_failure_comes_from_the_dice():
    policy = replace(POLICY, jitter=True)
    waits = [settle(job(attempt=1), Failed(ERROR), policy, dice).delay / SECOND for dice in (0, 0.5)]
    assert waits == [5, 7.5]


def test_further_crashes_wait_by_the_back_off():  # R6
    delays = [settle(job(attempt=n, crashes=n - 1), Lost(), POLICY).delay / SECOND for n in (1, 2, 3)]
    assert delays == [0, 20, 40]


def test_hubspot_waits_five_minutes_after_a_crash():  # R6, S3-12
    to = settle(job(attempt=1, max_attempts=6), Lost(), HUBSPOT.retry)
    assert (to.state, to.attempt, to.crashes, to.delay) == (S.SCHEDULED, 1, 1, 300 * SECOND)


def test_a_lost_job_tells_which_worker_lost_it():
    to = settle(job(worker_id="host-7"), Lost(), POLICY)
    assert to.error is not None
    assert (to.error.error_class, to.error.rule) == ("WorkerLost", "worker_lost")
    assert to.error.message == "worker 'host-7' stopped renewing its lease"
    to = settle(job(worker_id="host-7"), Lost("was ended by SIGKILL"), POLICY)
    assert to.error is not None
    assert to.error.message == "worker 'host-7' was ended by SIGKILL"


def test_a_dead_job_keeps_its_error_and_the_reason_of_its_end():  # S0-25, S2-22
    reasons = {
        "attempts_exhausted": settle(LAST, Failed(ERROR), POLICY),
        "unrecoverable": settle(CLAIMED, Failed(ERROR, retryable=False), POLICY),
        "rate_limited_too_often": settle(job(waits=100), RateLimited(SECOND, ERROR), POLICY),
    }
    for reason, to in reasons.items():
        assert to.error == msgspec.structs.replace(ERROR, reason=reason)
    assert settle(LAST, Lost(), POLICY).error.reason == "attempts_exhausted"


def test_an_error_may_bring_its_own_reason():
    to = settle(CLAIMED, Failed({"reason": "unknown_job_type"}, retryable=False), POLICY)
    assert to.error == ErrorRecord(reason="unknown_job_type")


def test_a_provider_that_says_later_for_ever_is_believed_a_hundred_times():  # R12
    assert POLICY.max_rate_limit_waits == 100
    claimed, waits = job(attempt=1, waits=0), 0
    while not (to := settle(claimed, RateLimited(SECOND, ERROR), POLICY)).ends:
        waits += 1
        claimed = job(attempt=to.attempt + 1, waits=to.waits)
    assert (waits, to.state, to.attempt) == (100, S.DEAD, 1)


def test_a_skipped_job_tells_why():  # R11
    assert settle(CLAIMED, Skip("flag is off"), POLICY).result == {"reason": "flag is off"}


def test_a_cancelled_job_tells_why():
    assert settle(CLAIMED, Cancelled("booking was refunded"), POLICY).error == ErrorRecord(
        reason="booking was refunded"
    )


def test_a_result_is_written_as_it_is():
    assert settle(CLAIMED, Succeeded([1, None]), POLICY).result == [1, None]


def test_a_crash_loop_ends_dead():  # R6
    claimed, runs = job(attempt=1, crashes=0), 1
    while not (to := settle(claimed, Lost(), POLICY)).ends:
        claimed, runs = job(attempt=to.attempt + 1, crashes=to.crashes), runs + 1
    assert (to.state, runs, to.crashes) == (S.DEAD, 5, 5)


@pytest.mark.parametrize("name", TABLE)
def test_cancellation_that_was_asked_for_ends_what_would_go_back(name):
    outcome, _, _ = TABLE[name]
    to = settle(CLAIMED, outcome, POLICY).cancelled()
    assert (to.state, to.event, to.outcome, to.delay) == (
        S.CANCELLED,
        "job.cancelled",
        "cancelled",
        timedelta(),
    )


def test_an_end_names_the_lease_that_it_was_made_under():
    end = End.of(CLAIMED, Released(), POLICY)
    assert (end.job_id, end.lease, end.ran, end.transition.attempt) == (CLAIMED.id, 7, 2, 1)


def test_every_state_has_its_moves_and_only_an_ended_one_may_start_anew():  # R1, S2-17
    assert set(MOVES) == set(JobState)
    assert all(MOVES[state] == {S.QUEUED, S.SCHEDULED} for state in ENDED)
    assert {state for state in JobState if S.RUNNING in MOVES[state]} == {S.QUEUED}  # S0-22
    assert all(state not in MOVES[state] for state in JobState)


ODD_DELAYS = st.timedeltas() | st.timedeltas(timedelta(0), timedelta(days=1))
ERRORS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, st.integers()),
    st.builds(Skip, st.text(max_size=5)),
    st.builds(Snooze, ODD_DELAYS),
    st.builds(Failed, ERRORS, st.booleans(), st.none() | ODD_DELAYS),
    st.builds(RateLimited, ODD_DELAYS, ERRORS, st.booleans()),
    st.builds(Cancelled, st.text(max_size=5)),
    st.builds(Released, st.none() | ODD_DELAYS),
    st.just(Lost()),
)
POLICIES = st.builds(
    RetryPolicy,
    kind=st.sampled_from(["fixed", "exponential"]),
    base=st.timedeltas(timedelta(0), timedelta(days=30)),
    factor=st.floats(1, 10),
    first_exponent=st.sampled_from([0, 1]),
    cap=st.none() | st.timedeltas(timedelta(0), timedelta(days=365)),
    jitter=st.booleans(),
    crash_delay=st.none() | st.timedeltas(timedelta(0), timedelta(hours=1)),
)
DICE = st.floats(0, 1, exclude_max=True)


CLAIMS = st.builds(
    job,
    attempt=st.integers(1, 20),
    max_attempts=st.integers(1, 20),
    waits=st.integers(0, POLICY.max_rate_limit_waits + 1),
    crashes=st.integers(0, 9),
)


@given(CLAIMS, OUTCOMES, POLICIES, DICE)
def test_one_step_is_legal_and_keeps_count(claimed, outcome, policy, dice):
    attempt, waits = claimed.attempt, claimed.waits
    to = settle(claimed, outcome, policy, dice)
    assert to.state in MOVES[S.RUNNING]  # R1
    assert to.ends == (to.state in ENDED)
    assert timedelta() <= to.delay <= LONGEST_DELAY
    assert to.attempt in {attempt, attempt - 1}
    burns_none = isinstance(outcome, Snooze | Released) or to.outcome == "rate_limited"
    assert (to.attempt == attempt - 1) == burns_none
    assert to.crashes == claimed.crashes + isinstance(outcome, Lost)
    assert to.waits - waits == (to.outcome == "rate_limited")
    if not to.ends and not burns_none:
        assert attempt < claimed.max_attempts  # R4
    if to.ends:
        assert not to.delay


@given(st.lists(OUTCOMES, max_size=60), POLICIES, DICE, st.integers(1, 6))
def test_over_a_whole_life_no_attempt_is_lost_and_none_is_too_many(outcomes, policy, dice, most):  # R4
    attempt, burnt, waits, crashes = 0, 0, 0, 0
    for outcome in outcomes:
        attempt += 1
        assert attempt <= most
        claimed = job(attempt=attempt, max_attempts=most, waits=waits, crashes=crashes)
        to = settle(claimed, outcome, policy, dice)
        burnt += to.outcome not in {"snoozed", "released", "rate_limited"}
        assert to.attempt == burnt
        if to.ends:
            return
        attempt, waits, crashes = to.attempt, to.waits, to.crashes
