"""What an application says itself about errors: its rules, and its hints."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import timedelta
from typing import Any

import pytest

from onward import InvalidSetting, Onward, RateLimited, Retry, Skip, Snooze, Unrecoverable
from onward.core.failures.app_rules import Classification
from onward.core.failures.classify import classify, judge
from onward.core.failures.verdict import Verdict
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import settle
from onward.core.work.retry import RetryPolicy
from tests.failures.classification.test_classification_rules import answered, caused, on_hand
from tests.work.rules.test_lifecycle import job as claimed

SECOND = timedelta(seconds=1)


class CardError(Exception): ...


class Declined(CardError): ...


def rules(*given: dict[str, Any]) -> Classification:
    own = Classification()
    for rule in given:
        own.add(rule.pop("errors", None), rule.pop("verdict"), name=rule.pop("name"), **rule)
    return own


def test_rules_are_asked_in_order_and_before_the_built_in_ones():
    own = rules(
        {"errors": Declined, "verdict": "unrecoverable", "name": "declined"},
        {"errors": (KeyError, CardError), "verdict": "retry", "name": "card", "after": "10s"},
        {"status": 404, "verdict": "unrecoverable", "name": "gone", "hint": "h", "link": "https://a.example"},
        {"status": range(500, 600), "verdict": "rate_limited", "name": "weak"},
        {"pattern": r"register \w+ closed", "verdict": "rate_limited", "name": "closed", "after": 60},
    )
    assert judge(Declined(), own=own).rule == "declined"
    assert judge(CardError(), own=own) == Verdict("card", "retry", 10 * SECOND)
    assert judge(answered(404), own=own) == Verdict(
        "gone", "unrecoverable", None, 404, "h", "https://a.example"
    )
    assert judge(answered(503, retry_after="5"), own=own) == Verdict("weak", "rate_limited", 5 * SECOND, 503)
    assert judge(ValueError("register 4 closed"), own=own) == Verdict("closed", "rate_limited", 60 * SECOND)
    assert judge(answered(422, "register 4 closed"), own=own).rule == "closed"
    assert judge(answered(401), own=own).rule == "http_401"
    assert judge(Unrecoverable("register 4 closed"), own=own).rule == "raised_unrecoverable"


def test_all_that_a_rule_asks_for_must_fit():
    own = rules(
        {
            "errors": CardError,
            "verdict": "unrecoverable",
            "name": "x",
            "pattern": re.compile("^NO", re.IGNORECASE),
        }
    )
    assert judge(CardError("no"), own=own).rule == "x"
    assert judge(CardError("oh no"), own=own).rule == "unclassified"
    assert judge(ValueError("no"), own=own).rule == "unclassified"


def test_a_rule_knows_a_cause_but_ends_nothing_for_what_was_on_hand():
    own = rules({"errors": CardError, "verdict": "unrecoverable", "name": "card"})
    assert judge(caused(ValueError(), CardError()), own=own).rule == "card"
    assert judge(on_hand(ValueError(), CardError()), own=own).rule == "unclassified"


def test_an_error_can_count_as_nothing_to_do():
    own = rules({"errors": CardError, "verdict": "skip", "name": "no_card"})
    outcome = classify(CardError("none on file"), own=own)
    assert isinstance(outcome, Skip)
    assert outcome.reason == "no_card: none on file"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("unrecoverable", Verdict("own", "unrecoverable")),
        ("rate_limited", Verdict("own", "rate_limited")),
        (RateLimited(after="30s", counted=True), Verdict("own", "rate_limited", 30 * SECOND, counted=True)),
        (Retry(after=5), Verdict("own", "retry", 5 * SECOND)),
        (Unrecoverable("x", hint="h"), Verdict("own", "unrecoverable", hint="h")),
        (Skip("nobody"), Verdict("own", "skip", reason="nobody")),
        (None, Verdict("unclassified", "retry")),
    ],
)
def test_a_function_says_it_in_the_words_of_a_handler(said, expected):
    own = Classification()
    own.add_function(lambda _: said, "own")
    assert judge(CardError(), own=own) == expected


def test_a_function_that_fails_does_not_hurt_the_job(app: Onward, caplog):
    @app.classify
    def broken(error: BaseException) -> None:
        raise SystemExit("oh")

    app.classify(lambda _: "whatever", name="odd")  # type: ignore[type-var]
    app.classify(CardError, "unrecoverable", name="card")

    @app.job
    def pay() -> None:
        raise CardError("declined")

    job = pay.enqueue()
    with caplog.at_level(logging.ERROR, logger="onward"):
        app.tick()
    assert job.refresh().error.rule == "card"
    assert "the rule broken of app.classify() failed and is passed over: SystemExit: oh" in caplog.text
    assert "the rule odd gave 'whatever'" in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"errors": CardError, "verdict": "dead", "name": "x"}, "its verdict is 'dead'; give one of 'retry'"),
        ({"errors": CardError, "verdict": None, "name": "x"}, "its verdict is None"),
        ({"verdict": "retry", "name": "x"}, "is about no error; give exception types, status= or pattern="),
        (
            {"errors": CardError, "verdict": "retry", "name": None},
            "name is None; it needs one, such as name=",
        ),
        ({"errors": CardError, "verdict": "dead", "name": None}, "verdict is 'dead'; .* needs a name="),
        ({"errors": CardError, "verdict": "retry", "name": "two words"}, "name is 'two words'"),
        ({"errors": CardError, "verdict": "retry", "name": "n" * 61}, "name is"),
        (
            {"errors": CardError, "verdict": "retry", "name": "http_401"},
            "a built-in rule is named 'http_401'",
        ),
        ({"errors": CardError, "verdict": "retry", "name": "taken"}, "'taken' is there already"),
        ({"errors": int, "verdict": "retry", "name": "x"}, "<class 'int'> is no exception class"),
        ({"errors": CardError(), "verdict": "retry", "name": "x"}, "is no exception class"),
        ({"errors": (), "verdict": "retry", "name": "x"}, "the tuple of exception classes is empty"),
        ({"status": 42, "verdict": "retry", "name": "x"}, "status is 42; give 100 to 599"),
        ({"status": "404", "verdict": "retry", "name": "x"}, "status is '404'"),
        ({"status": [], "verdict": "retry", "name": "x"}, r"status is \[\]"),
        ({"status": 4.5, "verdict": "retry", "name": "x"}, "status is 4.5"),
        ({"pattern": "(", "verdict": "retry", "name": "x"}, r"pattern '\(' can't be read"),
        ({"pattern": "", "verdict": "retry", "name": "x"}, "pattern is ''"),
        ({"pattern": "x" * 501, "verdict": "retry", "name": "x"}, "up to 500"),
        ({"pattern": b"x", "verdict": "retry", "name": "x"}, "pattern is b'x'"),
        ({"status": 404, "verdict": "retry", "name": "x", "after": "soon"}, "after is 'soon'"),
        ({"status": 404, "verdict": "retry", "name": "x", "after": -1}, "after is"),
        ({"status": 404, "verdict": "skip", "name": "x", "after": 1}, "after= is for what runs again"),
        ({"status": 404, "verdict": "retry", "name": "x", "hint": " "}, "hint is ' '"),
        ({"status": 404, "verdict": "retry", "name": "x", "link": "ftp://a"}, "link is 'ftp://a'; give one"),
        (
            {"status": 404, "verdict": "retry", "name": "x", "stats": 4},
            'no option "stats". Did you mean "status"',
        ),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(given, said, tmp_path):
    app: Any = Onward(f"sqlite:///{tmp_path}/x.db")
    app.classify(KeyError, "retry", name="taken")
    with pytest.raises(InvalidSetting, match=said):
        app.classify(given.pop("errors", None), given.pop("verdict"), **given)


def test_an_async_function_is_no_rule(tmp_path):
    app: Any = Onward(f"sqlite:///{tmp_path}/x.db")

    async def rule(error): ...

    with pytest.raises(InvalidSetting, match="rule is async"):
        app.classify(rule)


def test_a_function_that_can_not_be_given_an_error_is_no_rule(tmp_path):
    app: Any = Onward(f"sqlite:///{tmp_path}/x.db")
    for rule in (lambda: None, lambda error, job: None, lambda *, error: None):
        with pytest.raises(InvalidSetting, match="rule odd is called with the error alone, but takes"):
            app.classify(rule, name="odd")
    fitting: list[Any] = [str, lambda error, job=None: None, lambda *errors: None, len]
    for number, fits in enumerate(fitting):
        app.policies.registry.classification.add_function(fits, f"rule_{number}")


def test_a_delay_that_is_none_is_refused_where_it_is_said_and_the_job_is_tried_again(app):
    made = {
        "rate": lambda: RateLimited(after="soon"),
        "retry": lambda: Retry(after="soon"),
        "snooze": lambda: Snooze("soon"),
    }

    @app.job
    def careless(kind: str) -> object:
        return made[kind]()

    jobs = {kind: careless.enqueue(kind) for kind in made}
    app.tick()
    for kind, job in jobs.items():
        error = job.refresh().error
        assert (job.state, error.error_class, error.rule) == ("scheduled", "InvalidSetting", "unclassified")
        assert error.message.startswith(f"{'delay' if kind == 'snooze' else 'after'} is 'soon'; give a ")


@pytest.mark.parametrize("raised", [Retry(after=-5), Snooze(-5), RateLimited(after=-5)])
def test_a_delay_that_is_over_counts_as_zero_and_after_a_rate_limit_as_none(raised):
    end = settle(claimed(), classify(raised), RetryPolicy(kind="fixed", base=9 * SECOND, jitter=False))
    # Without a wait, all that a job has for rate limits would be used up at once.
    assert end.delay == (9 * SECOND if isinstance(raised, RateLimited) else 0 * SECOND)


@pytest.mark.parametrize(
    ("what", "text", "link", "said"),
    [
        (5, "x", None, "a hint is about 5"),
        ("", "x", None, "a hint is about ''"),
        (int, "x", None, "a hint is about <class 'int'>"),
        (CardError, "", None, "the hint for CardError: hint is ''"),
        ("card", "x", "javascript:x", "the hint for card: link is 'javascript:x'"),
    ],
)
def test_a_hint_that_makes_no_sense_is_refused(what, text, link, said, tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(InvalidSetting, match=re.escape(said)):
        app.hint(what, text, link=link)


def test_a_hint_is_for_a_class_a_name_or_a_rule_and_the_nearest_is_taken(app: Onward):
    app.hint(CardError, "ask for a card", link="https://a.example/cards")
    app.hint("LookupError", "look elsewhere")
    app.hint("job_timeout", "be quick")
    app.hint("Cut", "never taken")
    app.classify(Declined, "unrecoverable", name="declined", hint="another card")
    raised = {
        "class": CardError("x"),
        "derived": KeyError("x"),
        "rule first": Declined("x"),
        "own": Unrecoverable("x", hint="renew"),
        "cause": caused(ValueError("x"), CardError("y")),
        "built in": answered(401),
        "none": ValueError("x"),
    }

    @app.job
    def fail(how: str) -> None:
        raise raised[how]

    @app.job(timeout="20ms")
    async def slow() -> None:
        await asyncio.sleep(60)

    jobs = {how: fail.enqueue(how) for how in raised} | {"late": slow.enqueue()}
    app.tick()
    errors = {how: job.refresh().error or ErrorRecord() for how, job in jobs.items()}
    cards = "https://a.example/cards"
    assert {how: (error.hint, error.link) for how, error in errors.items()} == {
        "class": ("ask for a card", cards),
        "derived": ("look elsewhere", None),
        "rule first": ("another card", cards),
        "own": ("renew", None),
        "cause": ("ask for a card", cards),
        "built in": ("the provider refused the key or token; renew it, then replay", None),
        "none": (None, None),
        "late": ("be quick", None),
    }
