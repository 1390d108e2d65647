"""Whatever an exception is and does, judging it never fails, and what comes of it can be stored."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import RateLimited, Unrecoverable
from onward.core.failures.app_rules import Classification
from onward.core.failures.classify import classify, describe, judge
from onward.core.failures.verdict import Verdict
from onward.core.policy.policies import Policies
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Failed, Outcome, Skip
from onward.worker.children.protocol import Raised, rebuilt, to_answer
from tests.work.rules.test_lifecycle import CLAIMED

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NAMES = (
    "response", "status", "status_code", "headers", "body", "sqlstate", "pgcode", "errno",
    "described", "verdict", "message", "code", "args", "hint", "link", "_content", "exceptions",
    "__cause__", "__context__", "__suppress_context__", "__traceback__", "__notes__", "__class__",
    "__dict__",
)  # fmt: skip


class Nasty(BaseException):
    """Not an Exception, as KeyboardInterrupt and SystemExit, which would stop the run if they got out."""


class Broken:
    """Fails at whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __str__(self) -> str:
        raise Nasty

    __repr__ = __bool__ = __len__ = __iter__ = __str__


def failing(error: type[BaseException]) -> property:
    def get(_self: object) -> object:
        raise error

    return property(get)


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["429", "99", 10**30, "٣", "MISSING_SCOPES", b"RATELIMIT_EXCEEDED", "\ud800"]),
    st.builds(Broken),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(
        st.sampled_from(["Retry-After", "retry-after", "Date"]), st.text(max_size=10) | st.integers()
    ),
    st.builds(lambda error: error, st.sampled_from([ValueError("x"), Nasty(), Unrecoverable("x")])),
)
attributes = st.dictionaries(
    st.sampled_from(NAMES),
    odd | st.sampled_from([ValueError, Nasty, RecursionError]).map(failing),
    max_size=5,
)


def made(base: type[BaseException], about: dict[str, Any], text: Any) -> BaseException:
    space = dict(about)
    if callable(text):
        space["__str__"] = text
    kind = type("Hostile", (base,), space)
    said = "x" if callable(text) else text
    error: BaseException = kind(None, said) if base is RateLimited else kind(said)
    return error


def loud(error: type[BaseException]) -> Any:
    def told(_self: object) -> str:
        raise error

    return told


texts = st.one_of(
    st.text(max_size=50),
    st.sampled_from([ValueError, Nasty]).map(loud),
    st.just(lambda _self: 7),
)
errors = st.builds(made, st.sampled_from([Exception, OSError, ValueError, RateLimited]), attributes, texts)


def stored(outcome: Outcome) -> None:
    end = Policies().end_of(CLAIMED, outcome, 0.5)
    msgspec.json.encode(end.transition.error)
    assert end.transition.error_class is None or end.transition.error_class.isidentifier()


@settings(max_examples=150, deadline=None)
@given(errors, st.lists(errors, max_size=3))
def test_whatever_is_raised_comes_to_an_outcome_that_can_be_stored(error, causes):
    last = error
    for cause in causes:
        if "__cause__" not in vars(type(last)):
            last.__cause__ = cause
        last = cause
    own = Classification()
    own.add(ValueError, "skip", name="a", pattern="x+y")
    own.add(None, "retry", name="b", status=range(400, 500))
    outcome = classify(error, own=own, now=NOW)
    assert isinstance(outcome, Failed | RateLimited | Skip)
    assert isinstance(judge(error, own=own, now=NOW), Verdict)
    if not isinstance(outcome, RateLimited):
        stored(outcome)


def test_causes_that_go_in_a_circle_come_to_an_end():
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert judge(first).rule == "unclassified"


def test_a_huge_message_is_cut():
    outcome = classify(made(ValueError, {}, "x" * 3_000_000))
    assert isinstance(outcome, Failed)
    assert len(str(ErrorRecord.of(outcome.error).message)) <= 10_000


def test_a_long_chain_is_not_followed_for_ever():
    errors = [ValueError(str(number)) for number in range(5000)]
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    assert judge(errors[0]).rule == "unclassified"


def test_a_deep_and_wide_group_is_not_searched_for_ever():
    group: Exception = ValueError("x")
    for _ in range(50):
        group = ExceptionGroup("", [group, *(KeyError(n) for n in range(20))])
    assert judge(group).kind == "retry"


@pytest.mark.parametrize("attribute", NAMES)
def test_an_attribute_that_fails_is_passed_over(attribute):
    error = made(Exception, {attribute: failing(Nasty)}, "boom")
    assert isinstance(classify(error), Failed)


def test_a_rule_and_a_description_survive_a_broken_traceback():
    error = made(ValueError, {"__notes__": failing(ValueError)}, "boom")
    # Not by pytest.raises(), which reads the notes.
    with suppress(ValueError):
        raise error
    assert error.__traceback__ is not None
    assert (describe(error).message, describe(error).traceback is not None) == ("boom", True)


@settings(max_examples=50, deadline=None)
@given(errors)
def test_a_child_process_tells_of_whatever_was_raised(error):
    body = to_answer(error)[4:]
    raised = msgspec.json.decode(body, type=Raised)
    told = classify(rebuilt(raised))
    assert isinstance(told, Failed | RateLimited)
