"""The pure rules: tokens of a rate, whose turn it is, and what a queue may be asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.limits import gcra
from onward.core.limits.bounds import checked_bounds
from onward.core.limits.fairness import Candidate, Turn, by_age, in_turn, pick, quotas
from onward.core.limits.queue_policy import QueuePolicy
from onward.errors import InvalidSetting, OnwardError
from onward.operations.statement import as_json

SECOND = 1_000_000


@given(
    every=st.integers(1, 50),
    burst=st.integers(1, 8),
    steps=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12)), max_size=60),
)
def test_in_no_span_of_time_more_go_than_the_rate_and_the_burst(every, burst, steps):
    now, paid_at, gone = 1000, None, []
    for passed, asked in steps:
        now += passed
        count = min(asked, gcra.tokens(paid_at, now, every, burst))
        if count:
            paid_at = gcra.take(paid_at, now, every, burst, count)
            gone += [now] * count
    for first, start in enumerate(gone):
        for last in range(first, len(gone)):
            assert last - first + 1 <= (gone[last] - start) // every + burst


@given(every=st.integers(1, 50), burst=st.integers(1, 8), part=st.floats(0, 1))
def test_after_the_wait_one_may_go_and_a_moment_before_none(every, burst, part):
    owed = int(part * every * burst)
    wait = gcra.wait(1000 + owed, 1000, every, burst)
    assert gcra.tokens(1000 + owed, 1000 + wait, every, burst) >= 1
    if wait:
        assert gcra.tokens(1000 + owed, 1000, every, burst) == 0
        assert wait <= every


def test_what_is_owed_by_a_slower_rate_of_before_does_not_count():
    hour = 3600 * SECOND
    slow = gcra.take(None, 0, hour, 1, 1)
    assert gcra.tokens(slow, 1, SECOND, 2) == 2
    assert gcra.wait(slow, 1, SECOND, 2) == 0


Waiting = dict[str | None, list[Candidate]]


def candidates(org: str | None, count: int, *, priority: int = 5) -> list[Candidate]:
    return [Candidate(f"{org}-{number:06}", org, priority, number) for number in range(count)]


def orgs_of(picked: list[Candidate]) -> str:
    return "".join(job.org_id or "-" for job in picked)


def test_orgs_take_turns_and_are_interleaved():
    waiting: Waiting = {org: candidates(org, 10) for org in "abc"}
    picked, turn = pick(waiting, {}, None, 7)
    assert orgs_of(picked) == "abcabca"
    assert turn == Turn("a", 1)
    assert [job.id for job in picked if job.org_id == "b"] == ["b-000000", "b-000001"]


def test_the_next_claim_goes_on_with_the_next_org():
    waiting: Waiting = {org: candidates(org, 10) for org in "abc"}
    in_order = {org: waiting[org] for org in in_turn(waiting, Turn("a", 1))}
    picked, turn = pick(in_order, {}, Turn("a", 1), 2)
    assert (orgs_of(picked), turn) == ("bc", Turn("c", 1))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 40])
def test_by_weights_an_org_has_its_share_however_few_each_claim_takes(size):
    left = {"a": candidates("a", 400), "b": candidates("b", 400), None: candidates(None, 400)}
    weights, turn, gone = {"a": 3}, None, ""
    while len(gone) < 200:
        in_order = {org: left[org] for org in in_turn(left, turn)}
        picked, turn = pick(in_order, weights, turn, size)
        gone += orgs_of(picked)
        for job in picked:
            left[job.org_id].remove(job)
    assert abs(gone.count("a") / len(gone) - 3 / 5) < 0.03
    assert abs(gone.count("-") / len(gone) - 1 / 5) < 0.03


def test_the_jobs_of_a_heavy_org_are_spread_over_its_round():
    waiting: Waiting = {"a": candidates("a", 6), "b": candidates("b", 2)}
    picked, _ = pick(waiting, {"a": 3}, None, 8)
    assert orgs_of(picked) == "aabaaaba"


def test_an_org_with_few_jobs_leaves_its_turns_to_the_others():
    waiting: Waiting = {"a": candidates("a", 100), "b": candidates("b", 2)}
    picked, _ = pick(waiting, {}, None, 10)
    assert orgs_of(picked) == "ababaaaaaa"


@given(
    orgs=st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1),
    weights=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5)),
    count=st.integers(1, 60),
    gone=st.integers(0, 6),
)
def test_as_many_are_read_of_each_org_as_are_picked_of_it(orgs, weights, count, gone):
    turn = Turn(orgs[0], gone)
    picked, _ = pick({org: candidates(org, 100) for org in orgs}, weights, turn, count)
    shares = quotas(orgs, weights, turn, count)
    assert {org: orgs_of(picked).count(org) for org in orgs if org in orgs_of(picked)} == shares
    assert sum(shares.values()) == count


def test_the_turns_go_around_and_jobs_of_no_org_have_one_too():
    assert in_turn({"b", None, "a", "c"}, None) == ["a", "b", "c", None]
    assert in_turn({"b", None, "a", "c"}, Turn("bb", 1)) == ["c", None, "a", "b"]
    assert in_turn({"b", None, "a"}, Turn(None, 1)) == [None, "a", "b"]


def test_every_span_of_waiting_raises_a_job_by_one_priority():
    old, new = Candidate("old", None, 7, 0), Candidate("new", None, 5, 30 * SECOND)
    assert by_age([old, new], 30 * SECOND, None) == [new, old]
    assert by_age([old, new], 19 * SECOND, 10 * SECOND) == [new, old]
    assert by_age([old, new], 30 * SECOND, 10 * SECOND) == [old, new]


def test_a_rule_is_read_as_it_was_stored():
    policy = QueuePolicy.of(
        concurrency=2, rate="10/1m", burst=3, fair=True, weights={"acme": 3}, ageing="10m"
    )
    assert QueuePolicy.read(as_json(policy.stored()), None) == policy
    assert (policy.every, policy.at_once, policy.ageing) == (6 * SECOND, 3, timedelta(minutes=10))
    assert QueuePolicy.of().stored() == {}
    assert QueuePolicy.read("{}", None).plain


def test_what_an_operator_sets_takes_the_place_of_what_was_declared():
    declared = '{"concurrency": 2, "rate": "10/1m", "burst": 5, "fair": true}'
    policy = QueuePolicy.read(declared, '{"concurrency": 9, "rate": null}')
    assert (policy.concurrency, policy.rate, policy.burst, policy.fair) == (9, None, None, True)
    assert checked_bounds("none", None, 2, lift=True) == {"concurrency": None, "burst": 2}


@pytest.mark.parametrize(("rate", "burst"), [("10/1m", 1), ("1000/s", 100), ("5/s", 1), (50, 5)])
def test_without_a_burst_a_tenth_of_a_second_may_go_at_once(rate, burst):
    assert QueuePolicy.of(rate=rate).at_once == burst


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"burst": 2}, "give rate= too"),
        ({"rate": "1/s", "burst": 0}, "burst is 0"),
        ({"fair": "yes"}, "fair is 'yes'"),
        ({"weights": {"a": 2}}, "needs fair=True"),
        ({"fair": True, "weights": {"a": 0}}, "the weight of 'a' is 0"),
        ({"fair": True, "weights": {"": 1}}, "the org of a weight is empty"),
        ({"fair": True, "weights": ["a"]}, "weights is \\['a'\\]"),
        ({"ageing": 0}, "ageing is 0"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(OnwardError, match=said):
        QueuePolicy.of(**options)


def test_a_queue_is_declared_once(app):
    app.queue("q:a", concurrency=1)
    with pytest.raises(InvalidSetting, match="declare it once"):
        app.queue("q:a", concurrency=2)
    with pytest.raises(InvalidSetting, match="concurency"):
        app.queue("q:b", concurency=2)
