"""Calls within one attempt: again after a rate limit, by the waits of the document, and else not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import httpx
import pytest

from examples.categories import HUBSPOT
from onward import Context, InvalidSetting, NewJob, Onward, RateLimited, RetryPolicy
from onward.core.failures.classify import judge
from onward.core.failures.inner_retry import Calls
from onward.core.jobs.job import Job
from tests.failures.classification.test_classification_rules import answered
from tests.handlers.test_context import Attempt

SECOND = timedelta(seconds=1)
AT_ONCE = RetryPolicy(kind="fixed", base=timedelta(), jitter=False, max_attempts=4)


class Waiting(Attempt):
    """An attempt that does not wait, but notes for how long it would have."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.waits: list[float] = []

    def wait_cancelled(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return False


def attempt(app: Onward, name: str = HUBSPOT.name) -> tuple[Waiting, Context]:
    if HUBSPOT.name not in app.policies.registry.categories:
        app.category(HUBSPOT)
    app.client.worker.register("w")
    app.client.enqueue(NewJob(job_type="t", category=name, queue="q:default"))
    [job] = app.client.worker.claim("q:default", worker_id="w")
    run = Waiting(job)
    return run, Context(run, app.clients)


class Service:
    """Raises what it was given, one by one, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, answer: str = "done") -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer

    async def awaited(self, answer: str = "done") -> str:
        return self(answer)


def test_a_call_is_made_again_five_times_from_one_to_sixteen_seconds_apart(app: Onward):
    # S3-31, S3-34: one attempt, up to 5 retries within it.
    run, ctx = attempt(app)
    service = Service(*(answered(429) for _ in range(5)))
    assert ctx.call_provider(service, answer="pushed") == "pushed"
    assert service.calls == 6
    assert run.waits == [1, 2, 4, 8, 16]
    assert run.job.attempt == 1


def test_when_the_calls_are_used_up_the_last_error_is_raised(app: Onward):
    # S3-31
    run, ctx = attempt(app)
    errors = [answered(429) for _ in range(7)]
    service = Service(*errors)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        ctx.call_provider(service)
    assert caught.value is errors[5]
    assert (service.calls, len(run.waits)) == (6, 5)


def test_no_wait_is_longer_than_thirty_seconds():
    # S3-31
    policy = HUBSPOT.inner_retry
    assert policy is not None
    assert max(policy.delay(number) for number in range(1, 50)) == 30 * SECOND


@pytest.mark.parametrize(
    "error", [answered(429), ValueError("RATELIMIT_EXCEEDED"), RateLimited(after=3), RateLimited()]
)
def test_only_a_rate_limit_is_tried_again(app: Onward, error):
    # S3-32
    run, ctx = attempt(app)
    service = Service(error)
    assert ctx.call_provider(service) == "done"
    assert run.waits == [3 if getattr(error, "after", None) else 1]


@pytest.mark.parametrize(
    "error", [answered(500), answered(401), TimeoutError(), ConnectionError(), KeyError("x")]
)
def test_any_other_error_aborts_at_once(app: Onward, error):
    # S3-33
    run, ctx = attempt(app)
    service = Service(error)
    with pytest.raises(type(error)) as caught:
        ctx.call_provider(service)
    assert caught.value is error
    assert (service.calls, run.waits) == (1, [])


def test_a_wait_that_the_provider_asks_for_replaces_the_back_off_up_to_its_cap():
    # S3-32: what is longer ends the attempt, as a rate limit that waits outside of the slot.
    calls = Calls(HUBSPOT.inner_retry, judge)
    assert calls.wait_after(answered(429, retry_after="25"), 0.5) == 25 * SECOND
    assert calls.wait_after(answered(429, retry_after="30"), 0.5) == 30 * SECOND
    assert calls.wait_after(answered(429, retry_after="31"), 0.5) is None
    uncapped = Calls(RetryPolicy(kind="fixed", base=SECOND, jitter=False), judge)
    assert uncapped.wait_after(answered(429, retry_after="31"), 0.5) is None
    assert uncapped.wait_after(answered(429), 0.5) == SECOND


def test_without_a_policy_there_is_one_call_and_a_policy_can_be_given(app: Onward):
    run, ctx = attempt(app, "default")
    service = Service(*(answered(429) for _ in range(4)))
    with pytest.raises(httpx.HTTPStatusError):
        ctx.call_provider(service)
    assert ctx.call_provider(service, "given", retry=AT_ONCE) == "given"
    assert (service.calls, run.waits) == (5, [0, 0, 0])


def test_an_argument_of_the_functions_own_that_is_named_retry_is_left_to_it(app: Onward):
    _, ctx = attempt(app)

    def call(retry: int) -> int:
        return retry

    assert ctx.call_provider(call, retry=7) == 7


def test_where_a_breaker_waits_for_all_no_attempt_waits_by_itself(app: Onward):
    run, ctx = attempt(app)
    run.provider = "hubspot"
    service = Service(answered(429))
    with pytest.raises(httpx.HTTPStatusError):
        ctx.call_provider(service)
    assert run.waits == []


def test_rules_of_the_application_say_what_a_rate_limit_is(app: Onward):
    app.classify(KeyError, "rate_limited", name="odd", after="2s")
    app.classify(status=429, verdict="unrecoverable", name="blocked")
    run, ctx = attempt(app)
    assert ctx.call_provider(Service(KeyError("slow down"))) == "done"
    assert run.waits == [2]
    with pytest.raises(httpx.HTTPStatusError):
        ctx.call_provider(Service(answered(429)))


def test_an_awaited_call_does_the_same(app: Onward):
    # S3-31, S3-33
    _, ctx = attempt(app)

    async def calls() -> None:
        service = Service(answered(429), answered(429))
        assert await ctx.acall_provider(service.awaited, "a", retry=AT_ONCE) == "a"
        assert service.calls == 3
        with pytest.raises(KeyError):
            await ctx.acall_provider(Service(KeyError("x")).awaited)

    asyncio.run(calls())


def test_a_plain_call_is_refused_where_it_would_block_the_loop_or_never_run(app: Onward):
    _, ctx = attempt(app)

    async def inside() -> None:
        with pytest.raises(InvalidSetting, match="would block the event loop"):
            ctx.call_provider(Service())

    asyncio.run(inside())
    with pytest.raises(InvalidSetting, match=r"await ctx\.acall_provider"):
        _ = ctx.call_provider(inside)


def test_what_would_only_be_called_later_is_refused(app: Onward):
    _, ctx = attempt(app)
    service = Service()

    def generator() -> Iterator[str]:
        yield service()

    async def generate() -> AsyncIterator[str]:
        yield service()

    for function in (generator, generate, lambda: service.awaited("done")):
        with pytest.raises(InvalidSetting, match="call_provider"):
            ctx.call_provider(function)
    assert service.calls == 0


def test_a_wait_that_is_over_already_is_replaced_by_that_of_the_policy(app: Onward):
    run, ctx = attempt(app)
    assert ctx.call_provider(Service(RateLimited(-5), RateLimited(0))) == "done"
    assert run.waits == [1, 2]
