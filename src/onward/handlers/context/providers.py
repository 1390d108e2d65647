"""Calls to a provider that are made again when it says that there were too many."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from onward.core.failures.classify import judge
from onward.core.failures.inner_retry import Calls
from onward.core.failures.verdict import Verdict
from onward.core.policy.rules import Rules
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting
from onward.handlers.handler import Run
from onward.logs import get_logger

T = TypeVar("T")

log = get_logger("onward.job")

_CHECK_SECONDS = 0.5


def calls_of(run: Run, rules: Rules, arguments: dict[str, Any]) -> Calls:
    """Give what says when a call of this job is made again, by its category's policy or one of the call.

    A `retry` that is a RetryPolicy is taken out of the arguments; any other is the function's own.
    """
    policy = rules.category_of(run.job).inner_retry
    if isinstance(arguments.get("retry"), RetryPolicy):
        policy = arguments.pop("retry")

    def judged(error: BaseException) -> Verdict:
        return judge(error, own=rules.classification, now=datetime.now(UTC))

    # A breaker waits for all jobs and workers at once; each waiting by itself would fill the slots.
    return Calls(None if _has_breaker(run) else policy, judged)


def call(calls: Calls, function: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Call until it answers, or raises what is no rate limit."""
    while True:
        try:
            return _done(function())
        except Exception as error:
            wait = calls.wait_after(error, random.random())  # noqa: S311 - spreads calls, keeps no secret
            if wait is None:
                raise
        # Outside of the handling: what is raised here was not caused by the rate limit.
        sleep(wait.total_seconds())


async def call_async(
    calls: Calls, function: Callable[[], Awaitable[T]], check_cancelled: Callable[[], None]
) -> T:
    """Do the same, awaited."""
    while True:
        try:
            return await function()
        except Exception as error:
            wait = calls.wait_after(error, random.random())  # noqa: S311 - spreads calls, keeps no secret
            if wait is None:
                raise
        ends_at = time.monotonic() + wait.total_seconds()
        while (left := ends_at - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _CHECK_SECONDS))
            # A loop that a thread runs for itself is not cancelled.
            check_cancelled()


def _done(result: T) -> T:
    """Refuse what has called nobody yet, such as a lambda makes it: it would seem to have succeeded."""
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidSetting(
            "ctx.call_provider() was given what must be awaited; use await ctx.acall_provider(…)"
        )
    return result


def check_plain(function: Callable[..., Any]) -> None:
    """Refuse a call that would have to be awaited, and one that would block the event loop."""
    if inspect.iscoroutinefunction(function):
        raise InvalidSetting(
            "ctx.call_provider() calls plain functions; use await ctx.acall_provider(…) here"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidSetting(
            "ctx.call_provider() was given a generator, which calls nobody yet; give a function that calls"
        )
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public form raises, in every thread
        raise InvalidSetting(
            "ctx.call_provider() would block the event loop; await ctx.acall_provider(…) here"
        )


def report_broken_rule(name: str, error: BaseException) -> None:
    """Say that a rule of the application's own fails; it is passed over."""
    log.error(
        "the rule %s of app.classify() failed and is passed over: %s: %s", name, type(error).__name__, error
    )


def _has_breaker(run: Run) -> bool:
    provider = run.provider
    return provider is not None and not (callable(provider) and provider(run.job) is None)
