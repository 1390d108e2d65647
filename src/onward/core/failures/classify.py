"""The outcome of an attempt, derived from what its handler returned or raised.

Rules apply in order: exceptions by which the handler states the outcome, the application's rules, then the
built-in rules. Each rule is tried on the error, then on its causes. Classification never fails, whatever the
exception does.
"""

from __future__ import annotations

import traceback
from datetime import datetime, timedelta
from types import TracebackType
from typing import cast

from msgspec.structs import replace

from onward.core.failures.app_rules import Classification, may_say
from onward.core.failures.causes import Seen, causes, leaves, sole
from onward.core.failures.http_response import peek
from onward.core.failures.known_errors import BUILT_IN, raised
from onward.core.failures.verdict import UNCLASSIFIED, Verdict, is_link
from onward.core.secrets.redaction import Hide, redact_text
from onward.core.work.error_record import (
    LONGEST_MESSAGE,
    LONGEST_TRACEBACK,
    ErrorRecord,
    message_of,
    shorten,
)
from onward.core.work.lifecycle import Cancelled, Failed, Outcome, RateLimited, Skip, Snooze, Succeeded
from onward.core.work.wait import Parked

_NO_OWN_RULES = Classification()

UNREADABLE = "(its traceback could not be read)"
_LONGEST_CHAIN = 100

_STATED_OUTCOMES = (Parked, Skip, Snooze, Cancelled)
_SEVERITY = ("unrecoverable", "rate_limited", "retry", "skip")


def classify(
    end: object,
    hide: Hide = redact_text,
    own: Classification = _NO_OWN_RULES,
    now: datetime | None = None,
) -> Outcome:
    """Return the outcome of an attempt whose handler returned or raised `end`.

    `now` turns a date in a server's answer into a delay.
    """
    # Not isinstance(): an object may claim any `__class__`, or raise when it is read.
    if not issubclass(type(end), BaseException):
        return Succeeded(end)
    try:
        return _outcome(cast("BaseException", end), hide, own, now)
    except BaseException as error:  # noqa: BLE001 - an exception's own methods may raise anything
        message = f"(it can't be read: {type(error).__name__})"
        return Failed(ErrorRecord(type(end).__name__, message, rule=UNCLASSIFIED))


def judge(
    error: BaseException,
    hide: Hide = redact_text,
    own: Classification = _NO_OWN_RULES,
    now: datetime | None = None,
) -> Verdict:
    """Return the verdict on a failure, with the rule that decided it; never fails."""
    try:
        return _judge(error, hide, own, now)
    except BaseException:  # noqa: BLE001 - an exception's own methods may raise anything
        return Verdict(UNCLASSIFIED, "retry")


def _judge(error: BaseException, hide: Hide, own: Classification, now: datetime | None) -> Verdict:
    if isinstance(judged := peek(error, "verdict"), Verdict):
        # The child process that raised the error has already classified it.
        return judged
    error = sole(error)
    if isinstance(error, BaseExceptionGroup):
        return min((judge(leaf, hide, own, now) for leaf in leaves(error)), key=_severity)
    chain = causes(error)
    verdict = own.explain(_by_rules(chain, own, now), chain)
    link = verdict.link if is_link(verdict.link) else None
    shown = {"hint": verdict.hint, "link": link, "reason": verdict.reason}
    return replace(verdict, **{name: _shown(text, hide) for name, text in shown.items()})


def describe(error: BaseException, hide: Hide = redact_text) -> ErrorRecord:
    """Return what is stored about an exception: its class, message and traceback; never fails."""
    described = peek(error, "described")
    if isinstance(described, ErrorRecord) and described.error_class is not None:
        # The child process that raised the error has already described it.
        return described
    shown = sole(error)
    message = shorten(message_of(shown), LONGEST_MESSAGE, hide)
    has_trace = isinstance(peek(error, "__traceback__"), TracebackType)
    # Keep the end of a traceback: it shows where the error was raised.
    trace = shorten(format_error(error), LONGEST_TRACEBACK, hide, end=True) if has_trace else None
    return ErrorRecord(type(shown).__name__, message, traceback=trace)


def _shown(text: str | None, hide: Hide) -> str | None:
    if text is None:
        return None
    # Half a surrogate pair can't be sent from a child to its worker.
    return shorten(text, LONGEST_MESSAGE, hide).encode("utf-8", "replace").decode()


def format_error(error: BaseException) -> str:
    """Return an exception as text, with its traceback and causes; `UNREADABLE` if it raises, never fails."""
    raised_at = peek(error, "__traceback__")
    raised_at = raised_at if isinstance(raised_at, TracebackType) else None
    try:
        if _is_endless(error):
            # Without its causes: formatting all of them would block the worker for seconds.
            return "".join(
                [*traceback.format_tb(raised_at), f"{type(error).__name__}: {message_of(error)}\n"]
            )
        return "".join(traceback.format_exception(type(error), error, raised_at))
    except BaseException:  # noqa: BLE001 - the handler's own attributes may raise anything
        return UNREADABLE


def _is_endless(error: BaseException) -> bool:
    """Whether the chain of causes is longer than `_LONGEST_CHAIN`, or circular."""
    current: object = error
    for _ in range(_LONGEST_CHAIN):
        current = peek(current, "__cause__") or peek(current, "__context__")
        if current is None:
            return False
    return True


def _outcome(error: BaseException, hide: Hide, own: Classification, now: datetime | None) -> Outcome:
    stated = sole(error)
    if isinstance(stated, BaseExceptionGroup) and all(
        isinstance(leaf, _STATED_OUTCOMES) for leaf in leaves(stated)
    ):
        stated = leaves(stated)[0]
    if isinstance(stated, _STATED_OUTCOMES):
        return stated
    verdict = judge(error, hide, own, now)
    about = {name: value for name in ("rule", "status", "hint", "link") if (value := getattr(verdict, name))}
    if verdict.kind == "skip":
        return Skip(verdict.reason or f"{verdict.rule}: {describe(error, hide).message}")
    if isinstance(stated, RateLimited) and verdict.kind == "rate_limited":
        # Keep the delay as the handler gave it: an invalid one is later reported as the handler's mistake.
        return RateLimited(stated.after, replace(_limited(stated, hide), **about), stated.counted)
    stored = replace(describe(error, hide), **about)
    match verdict.kind:
        case "rate_limited":
            return RateLimited(verdict.after, stored, verdict.counted)
        case "unrecoverable":
            return Failed(replace(stored, reason=verdict.reason), retryable=False)
    return Failed(stored, after=verdict.after)


def _by_rules(chain: list[Seen], own: Classification, now: datetime | None) -> Verdict:
    for seen in chain:
        if not seen.incidental and (verdict := raised(seen, now)) is not None:
            return verdict
    if (verdict := own.verdict(chain, now)) is not None:
        return verdict
    for rule in BUILT_IN:
        for seen in chain:
            if (verdict := rule(seen, now)) is not None and may_say(seen, verdict):
                return verdict
    return Verdict(UNCLASSIFIED, "retry")


def _severity(verdict: Verdict) -> tuple[int, bool, timedelta]:
    """Return a sort key for verdicts on a group's errors: the most severe first, then the longest wait."""
    return (
        _SEVERITY.index(verdict.kind),
        verdict.rule == UNCLASSIFIED,
        -(verdict.after or timedelta()),
    )


def _limited(error: RateLimited, hide: Hide) -> ErrorRecord:
    match error.error:
        case str():
            return replace(describe(error, hide), message=shorten(error.error, LONGEST_MESSAGE, hide))
        case BaseException():
            return describe(error.error, hide)
    return ErrorRecord.of(error.error)
