"""What the documents say of each kind of error, from the handler to the stored end, on both databases."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from examples.categories import BOOKING, CATEGORIES
from onward import (
    Client,
    Context,
    Failed,
    JobState,
    NewJob,
    Onward,
    RateLimited,
    Skip,
    Snooze,
    Succeeded,
    Unrecoverable,
)
from onward.core.failures.classify import classify
from onward.core.policy.policies import Policies
from onward.results import Job
from tests.apps import with_categories
from tests.failures.classification.test_classification_rules import NEVER, NOW, answered
from tests.work.rules.test_lifecycle import job as claimed

SECOND = timedelta(seconds=1)
MINUTE = 60 * SECOND
DAY = timedelta(days=1)


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def enqueue(client: Client, category: str) -> str:
    client.at(NOW).worker.register("w", lease=1000 * DAY)
    return client.at(NOW).enqueue(NewJob(job_type="t", category=category, queue="q:default")).id


def attempt(client: Client, error: BaseException, now: datetime) -> Job:
    """Claim the one job that is due, have it raise this, and give it as it is then."""
    client.at(now).worker.promote()
    [job] = client.at(now).worker.claim("q:default", worker_id="w")
    client.at(now).worker.finish([job.end_with(classify(error, now=now))]).require()
    return client.jobs.get(job.id)


def test_a_job_whose_feature_is_switched_off_is_a_success_that_did_nothing(app: Onward):
    # S0-63, R11
    @app.job(category=app.category(BOOKING).name)
    def issue_invoice() -> None:
        raise Skip("INVOICING_ENABLED=false")

    job = issue_invoice.using(subject="booking:1").enqueue()
    assert app.tick().succeeded == 1
    done = job.refresh()
    assert (done.state, done.outcome, done.result) == (
        JobState.SUCCEEDED,
        "skipped",
        {"reason": "INVOICING_ENABLED=false"},
    )


@pytest.mark.parametrize("error", [RuntimeError("register closed"), TimeoutError("no answer"), answered(500)])
def test_an_error_of_the_provider_and_a_time_out_are_tried_three_times(client, error):
    # S0-64
    enqueue(client, "booking")
    now, ran = NOW, 1
    while (job := attempt(client, error, now)).state != JobState.DEAD:
        assert job.run_at == now + MINUTE
        now, ran = job.run_at, ran + 1
    assert ran == 3
    assert job.error.reason == "attempts_exhausted"


def test_an_address_that_is_none_is_logged_and_failed_at_once(app: Onward, caplog):
    # S0-68
    @app.job(category=app.category(BOOKING).name)
    def send_confirmation(ctx: Context, to: str) -> None:
        if "@" not in to:
            ctx.log.error("no address: %s", to)
            raise Unrecoverable(f"no address: {to}")

    job = send_confirmation.using(subject="booking:1").enqueue("nobody")
    with caplog.at_level(logging.ERROR, logger="onward.job"):
        assert app.tick().dead == 1
    dead = job.refresh()
    assert (dead.attempt, dead.error.rule) == (1, "raised_unrecoverable")
    assert "no address: nobody" in caplog.text


@pytest.mark.parametrize("error", [answered(401), answered(403), answered(400, "MISSING_SCOPES")])
def test_what_the_provider_does_not_allow_is_dead_at_once(client, error):
    # S3-22
    enqueue(client, "hubspot")
    dead = attempt(client, error, NOW)
    assert (dead.state, dead.attempt, dead.error.reason) == (JobState.DEAD, 1, "unrecoverable")


@pytest.mark.parametrize("error", [answered(429), ConnectionResetError(), answered(503)])
def test_what_may_pass_counts_and_waits_by_the_back_off_until_it_is_dead(client, error):
    # S3-24, R12: also a rate limit counts here.
    enqueue(client, "hubspot")
    now, waits = NOW, list[timedelta]()
    while (job := attempt(client, error, now)).state != JobState.DEAD:
        waits.append(job.run_at - now)
        assert job.attempt == len(waits)
        now = job.run_at
    assert waits == [2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 16 * MINUTE, 32 * MINUTE]
    assert (job.attempt, job.error.reason) == (6, "attempts_exhausted")


@pytest.mark.parametrize(("rule", "error"), NEVER)
def test_what_can_not_pass_runs_once(rule, error):
    # S4-37, S4-38, S4-39
    end = Policies().end_of(claimed(attempt=1), classify(error), 0.5)
    assert (end.transition.state, end.transition.error.rule) == (JobState.DEAD, rule)


def test_a_snooze_burns_nothing_and_a_skip_ends(client):
    # R11, S0-70
    enqueue(client, "default")
    waiting = attempt(client, Snooze("1h"), NOW)
    assert (waiting.state, waiting.attempt, waiting.run_at) == (JobState.SCHEDULED, 0, NOW + 60 * MINUTE)
    assert attempt(client, Skip("done elsewhere"), waiting.run_at).state == JobState.SUCCEEDED


def test_a_rate_limit_burns_no_attempt_and_ends_after_a_hundred_waits(client):
    # R12
    enqueue(client, "default")
    now, waited = NOW, 0
    while (job := attempt(client, answered(429, retry_after="60"), now)).state != JobState.DEAD:
        assert (job.attempt, job.run_at - now) == (0, MINUTE)
        now, waited = job.run_at, waited + 1
    assert waited == 100
    assert (job.error.reason, job.error.rule) == ("rate_limited_too_often", "http_429")


def test_a_rate_limit_without_a_time_waits_by_the_back_off_and_longer_each_time():
    # R12, S4-41
    def wait(category: str, **fields: int) -> timedelta:
        outcome = classify(answered(429), now=NOW)
        return (
            Policies.of(categories=CATEGORIES)
            .end_of(claimed(category=category, **fields), outcome, 1.0)
            .transition.delay
        )

    assert [wait("default", attempt=1, waits=waits).total_seconds() for waits in (0, 1, 2, 50)] == [
        5,
        10,
        20,
        300,
    ]
    assert [wait("hubspot", attempt=n, waits=0) for n in (1, 2)] == [2 * MINUTE, 4 * MINUTE]


@pytest.mark.parametrize(
    ("category", "counted", "burnt"),
    [
        ("default", None, 0),
        ("hubspot", None, 1),
        ("hubspot", False, 0),
        ("default", True, 1),
    ],
)
def test_whether_a_rate_limit_burns_an_attempt_is_said_by_it_or_by_the_category(
    client, category, counted, burnt
):
    # R12
    enqueue(client, category)
    job = attempt(client, RateLimited(after="1m", counted=counted), NOW)
    assert (job.attempt, job.run_at) == (burnt, NOW + MINUTE)


def test_a_deadline_ends_the_waiting_for_a_provider(app: Onward):
    # R12
    ran: list[int] = []

    @app.job(name="t")
    def call() -> None:
        ran.append(1)

    then, client = datetime.now(UTC) - 120 * MINUTE, app.client
    client.at(then).worker.register("w", lease=DAY)
    client.at(then).enqueue(NewJob(job_type="t", deadline=then + 60 * MINUTE))
    waiting = attempt(client, RateLimited(after="90m"), then)
    assert (waiting.state, waiting.waits) == (JobState.SCHEDULED, 1)
    app.tick()
    dead = client.jobs.get(waiting.id)
    assert (dead.state, dead.error.reason) == (JobState.DEAD, "deadline_passed")
    assert (dead.error.rule, ran) == ("deadline_passed", [])


def test_the_class_of_an_error_is_a_label_of_bounded_form():
    def label(kind: object) -> str | None:
        return (
            Policies.of(categories=CATEGORIES)
            .end_of(claimed(), Failed({"error_class": kind}), 0.5)
            .transition.error_class
        )

    assert label("HTTPStatusError") == "HTTPStatusError"
    assert {label(odd) for odd in ("", "a b", "x" * 100, 'a"}', "é\n", 5, None)} == {"other"}
    assert Policies().end_of(claimed(), Succeeded(1), 0.5).transition.error_class is None


def test_ends_that_no_rule_was_asked_about_have_a_name_too(app: Onward):
    @app.job(max_attempts=1)
    def nonsense(number: int) -> object:
        odd = Snooze(1)
        odd.delay = "a while"
        return odd

    odd = nonsense.enqueue(1)
    # A client without the application knows no signatures.
    unknowing = Client(store=app.client.store)
    wrong = unknowing.enqueue(NewJob(job_type="nonsense", payload={"number": "x"}))
    app.tick()
    assert odd.refresh().error.rule == "invalid_outcome"
    assert app.client.jobs.get(wrong.id).error.rule == "invalid_arguments"
