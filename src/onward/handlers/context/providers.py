"""Calls to a provider that are repeated while it reports too many calls."""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from onward.core.failures.classify import judge
from onward.core.failures.inner_retry import Calls
from onward.core.failures.verdict import Verdict
from onward.core.policy.policies import Policies
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting
from onward.handlers.context.event_loop import check_may_block
from onward.handlers.handler import Run
from onward.logs import get_logger

T = TypeVar("T")

log = get_logger("onward.job")


def calls_of(run: Run, policies: Policies, arguments: dict[str, Any]) -> Calls:
    """Return what decides when a call of this job is repeated, by its category's policy or the call's.

    A `retry` that is a RetryPolicy is removed from the arguments; any other belongs to the function.
    """
    policy = policies.category_of(run.job).inner_retry
    if isinstance(arguments.get("retry"), RetryPolicy):
        policy = arguments.pop("retry")

    def judged(error: BaseException) -> Verdict:
        return judge(error, own=policies.registry.classification, now=datetime.now(UTC))

    # A breaker holds the jobs of all workers at once; if each job waited by itself, they would fill the
    # slots.
    return Calls(None if _has_breaker(run) else policy, judged)


def call(calls: Calls, function: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Call until the function returns, or raises an error that is no rate limit."""
    while True:
        try:
            return _done(function())
        except Exception as error:
            wait = calls.wait_after(error, random.random())  # noqa: S311 - spreads calls, keeps no secret
            if wait is None:
                raise
        # Outside of the `except` block: the rate limit is not the cause of an error that is raised here.
        sleep(wait.total_seconds())


async def call_async(
    calls: Calls, function: Callable[[], Awaitable[T]], sleep: Callable[[float], Awaitable[None]]
) -> T:
    """Await calls until the function returns, or raises an error that is no rate limit."""
    while True:
        try:
            return await function()
        except Exception as error:
            wait = calls.wait_after(error, random.random())  # noqa: S311 - spreads calls, keeps no secret
            if wait is None:
                raise
        await sleep(wait.total_seconds())


def _done(result: T) -> T:
    """Raise InvalidSetting for a coroutine, such as a lambda returns.

    It has called no provider yet, and would seem to have succeeded.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidSetting(
            "ctx.call_provider() was given what must be awaited; use await ctx.acall_provider(…)"
        )
    return result


def check_plain(function: Callable[..., Any]) -> None:
    """Raise InvalidSetting for a call that must be awaited or that would block the event loop."""
    if inspect.iscoroutinefunction(function):
        raise InvalidSetting(
            "ctx.call_provider() calls plain functions; use await ctx.acall_provider(…) here"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidSetting(
            "ctx.call_provider() was given a generator, which makes no call yet; give a plain function"
        )
    check_may_block("ctx.call_provider()", "await ctx.acall_provider(…)")


def report_broken_rule(name: str, error: BaseException) -> None:
    """Log that a classification rule of the application failed and is passed over."""
    log.error(
        "the rule %s of app.classify() failed and is passed over: %s: %s", name, type(error).__name__, error
    )


def _has_breaker(run: Run) -> bool:
    provider = run.provider
    return provider is not None and not (callable(provider) and provider(run.job) is None)
