"""The rules of a breaker, as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onward import Cancelled, Failed, InvalidSetting, RateLimited, Released, Skip, Snooze, Succeeded
from onward.core.failures.breaker import (
    DEFAULT_SETTINGS,
    LONGEST_HOLD,
    LONGEST_RETRY_AFTER,
    Answer,
    Breaker,
    BreakerSettings,
    answer_of,
    answered,
    ask,
    check_provider,
    closed,
    opened,
    settings_of,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NEW = Breaker(name="crm")
BACK = Answer(pushed_back=True, status=429, job_id="other")
GOOD = Answer(good=True)
SETTINGS = DEFAULT_SETTINGS


def end_of(breaker: Breaker) -> datetime:
    assert breaker.until is not None
    return breaker.until


def after(count: int, breaker: Breaker = NEW, answer: Answer = BACK) -> Breaker:
    for number in range(count):
        breaker = answered(breaker, None, replace(answer, job_id=f"job{number}"), SETTINGS, NOW)
    return breaker


def test_two_jobs_that_are_pushed_back_hold_nothing_and_a_third_holds():
    assert after(2).state == "closed"
    third = after(3)
    assert (third.state, third.until, third.opened_at) == ("open", NOW + 20 * SECOND, NOW)
    assert third.reason == "3 jobs in a row were pushed back, the last with status 429"
    assert third.failed_jobs == ("job0", "job1", "job2")


def test_one_job_that_is_pushed_back_for_ever_opens_nothing():
    breaker, at = NEW, NOW
    for _ in range(50):
        breaker = answered(breaker, None, BACK, SETTINGS, at)
        at += 7 * SECOND
    assert (breaker.state, breaker.failures, breaker.failed_jobs) == ("closed", 1, ("other",))


def test_a_job_counts_once_between_those_of_others():
    breaker = NEW
    for job in ("a", "b", "a", "b", "a"):
        breaker = answered(breaker, None, replace(BACK, job_id=job), SETTINGS, NOW)
    assert (breaker.state, breaker.failures) == ("closed", 2)
    assert answered(breaker, None, BACK, SETTINGS, NOW).state == "open"


def test_answers_of_different_windows_are_not_counted_together():
    late = answered(after(2), None, BACK, SETTINGS, NOW + 61 * SECOND)
    assert (late.state, late.failures, late.counted_from) == ("closed", 1, NOW + 61 * SECOND)


def test_a_good_answer_clears_the_count():
    assert answered(after(2), None, GOOD, SETTINGS, NOW) == NEW


def test_the_hold_is_what_the_provider_asks_for_else_that_of_the_settings():
    for said, held in ((0, 20), (2, 2), (60, 60)):
        answer = replace(BACK, retry_after=timedelta(seconds=said))
        assert after(3, answer=answer).until == NOW + held * SECOND


def test_an_absurd_wait_is_bounded_and_a_negative_one_is_none():
    assert after(3, answer=replace(BACK, retry_after=timedelta(days=400))).until == NOW + LONGEST_RETRY_AFTER
    assert after(3, answer=replace(BACK, retry_after=-SECOND)).until == NOW + 20 * SECOND


def test_while_all_is_well_everyone_may_call():
    assert ask(NEW, "a", SETTINGS, NOW) == ("go", NEW)


def test_once_an_answer_pushed_back_one_at_a_time_may_call():
    entry, taken = ask(after(1), "a", SETTINGS, NOW)
    assert entry == "probe"
    assert ask(taken, "b", SETTINGS, NOW)[0] == "wait"
    assert ask(answered(taken, "a", GOOD, SETTINGS, NOW), "b", SETTINGS, NOW)[0] == "go"


def test_after_the_hold_one_is_let_through_and_the_next_when_it_stays_away_too_long():
    held = after(3)
    assert ask(held, "a", SETTINGS, NOW + 19 * SECOND)[0] == "held"
    entry, taken = ask(held, "a", SETTINGS, NOW + 20 * SECOND)
    assert entry == "probe"
    assert ask(taken, "b", SETTINGS, NOW + 49 * SECOND)[0] == "wait"
    assert ask(taken, "b", SETTINGS, NOW + 50 * SECOND)[0] == "probe"


def test_a_probe_that_fails_doubles_the_hold_up_to_a_bound():
    breaker, at, holds = after(3), NOW, []
    for number in range(8):
        at = end_of(breaker)
        breaker = ask(breaker, "a", SETTINGS, at)[1]
        breaker = answered(breaker, "a", replace(BACK, job_id=f"probe{number}"), SETTINGS, at)
        holds.append(end_of(breaker) - at)
    assert holds[:4] == [40 * SECOND, 80 * SECOND, 160 * SECOND, 320 * SECOND]
    assert holds[-1] == LONGEST_HOLD
    hour = BreakerSettings.of(hold="1h")
    assert hour.held_for(99, None) == timedelta(hours=1), "what is set longer than the bound stays"


def test_a_probe_by_a_job_that_was_pushed_back_before_makes_no_hold_longer():
    breaker = after(3)
    for number in range(8):
        at = end_of(breaker)
        breaker = ask(breaker, "a", SETTINGS, at)[1]
        breaker = answered(breaker, "a", replace(BACK, job_id=f"job{number % 3}"), SETTINGS, at)
        assert (end_of(breaker) - at, breaker.holds) == (20 * SECOND, 0)


def test_a_probe_that_fails_is_held_as_long_as_the_provider_asks_for():
    breaker = after(3, answer=replace(BACK, retry_after=2 * SECOND))
    for number in range(8):
        at = end_of(breaker)
        breaker = ask(breaker, "a", SETTINGS, at)[1]
        answer = replace(BACK, retry_after=2 * SECOND, job_id=f"probe{number}")
        breaker = answered(breaker, "a", answer, SETTINGS, at)
        assert end_of(breaker) - at == 2 * SECOND


def test_only_the_newest_jobs_are_remembered():
    breaker = after(500)
    assert (len(breaker.failed_jobs), breaker.failed_jobs[-1]) == (100, "job499")


def test_a_try_that_tells_nothing_lets_another_try():
    held = after(3)
    taken = ask(held, "a", SETTINGS, end_of(held))[1]
    back = answered(taken, "a", Answer(), SETTINGS, end_of(held))
    assert (back.state, back.probe) == ("open", None)
    assert ask(back, "b", SETTINGS, end_of(held))[0] == "probe"


def test_a_call_from_before_the_hold_can_make_it_longer_but_counts_as_no_try():
    held = after(3)
    longer = answered(held, None, replace(BACK, retry_after=45 * SECOND), SETTINGS, NOW + SECOND)
    assert (longer.until, longer.holds) == (NOW + 46 * SECOND, 0)
    assert replace(after(4), failed_jobs=held.failed_jobs) == held
    straggler = answered(held, None, BACK, SETTINGS, end_of(held))
    assert (straggler.until, straggler.holds) == (end_of(held) + 20 * SECOND, 0)


def test_an_answer_under_a_probe_that_was_lost_takes_no_other_probe_away():
    held = after(3)
    first = ask(held, "a", SETTINGS, end_of(held))[1]
    second = ask(first, "b", SETTINGS, end_of(held) + SETTINGS.patience)[1]
    told = answered(second, "a", Answer(), SETTINGS, end_of(held) + SETTINGS.patience)
    assert told.probe == "b"


def test_what_an_operator_holds_no_answer_frees_until_its_end():
    forced = opened(NEW, NOW + 60 * SECOND, "their maintenance", NOW)
    for answer in (GOOD, BACK):
        assert answered(forced, None, answer, SETTINGS, NOW) == forced
    assert ask(forced, "a", SETTINGS, NOW + 60 * SECOND)[0] == "probe"
    endless = opened(NEW, None, "their maintenance", NOW)
    assert answered(endless, None, BACK, SETTINGS, NOW) == endless
    assert ask(endless, "a", SETTINGS, NOW + timedelta(days=999))[0] == "held"
    assert closed(endless) == NEW


def test_it_is_shown_half_open_when_its_hold_has_ended():
    held = after(3)
    assert [held.seen_at(at).state for at in (NOW, end_of(held))] == ["open", "half_open"]
    assert NEW.seen_at(NOW).state == "closed"


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (Succeeded(1), GOOD),
        (Skip("nothing to do"), GOOD),
        (Failed({"error_class": "HTTPStatusError", "status": 404}), GOOD),
        (Failed({"error_class": "HTTPStatusError", "status": 401}, retryable=False), GOOD),
        (RateLimited(7), Answer(pushed_back=True, retry_after=7 * SECOND, status=429)),
        (Failed({"status": 429}, after="a while"), Answer(pushed_back=True, status=429)),
        (RateLimited("1m", counted=True), Answer(pushed_back=True, retry_after=60 * SECOND, status=429)),
        (Failed({"status": 503}, after=9), Answer(pushed_back=True, retry_after=9 * SECOND, status=503)),
        (Failed({"status": 500}, retryable=False), Answer(pushed_back=True, status=500)),
        (Failed({"status": 429}), Answer(pushed_back=True, status=429)),
        (Failed({"status": 408}), Answer()),
        (Failed({"status": 425}), Answer()),
        (Failed({"status": "503"}), Answer()),
        (Failed({"error_class": "TimeoutError"}), Answer()),
        (Failed("boom"), Answer()),
        (Snooze(5), Answer()),
        (Cancelled(), Answer()),
        (Released(), Answer()),
    ],
)
def test_what_an_outcome_says_of_the_provider(outcome, answer):
    assert answer_of(outcome) == answer


def test_keys_take_the_settings_of_the_name_before_their_colon():
    crm, org = BreakerSettings.of(2), BreakerSettings.of(3)
    known = {"crm": crm, "crm:eu:7": org}
    assert settings_of("crm:eu:7", known) is org
    assert settings_of("crm:eu:8", known) is crm
    assert settings_of("other:1", known) is DEFAULT_SETTINGS


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"failures": 1}, "failures is 1; give a whole number from 2 to 100"),
        ({"failures": 101}, "failures is 101"),
        ({"failures": True}, "failures is True"),
        ({"hold": 0}, "hold is 0"),
        ({"hold": "soon"}, "hold is 'soon'"),
        ({"window": "2d"}, "window is '2d'"),
        ({"patience": -1}, "patience is -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings, named):
    with pytest.raises(InvalidSetting, match=named):
        BreakerSettings.of(**settings)


@pytest.mark.parametrize("name", ["", 7, "a\0b", "x" * 201, "queue:q:default"])
def test_a_name_that_can_not_be_kept_is_refused(name):
    with pytest.raises(InvalidSetting, match="provider"):
        check_provider(name)


def test_the_longest_hold_that_can_be_set_is_held_however_often_it_was_tried():
    settings = BreakerSettings.of(hold="1d")
    assert settings.held_for(10_000, None) == timedelta(days=1)
    assert BreakerSettings.of(hold="1ms").held_for(10_000, None) == LONGEST_HOLD


def test_a_probe_from_before_the_clock_was_put_back_holds_nobody_up():
    held = after(3)
    over = end_of(held)
    entry, given = ask(held, "one", SETTINGS, over)
    assert entry == "probe"
    assert ask(given, "two", SETTINGS, over)[0] == "wait"
    put_back = replace(given, until=over - timedelta(hours=1))
    assert ask(put_back, "two", SETTINGS, over - timedelta(hours=1))[0] == "probe"
