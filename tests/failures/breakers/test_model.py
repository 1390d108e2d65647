"""Random histories of one breaker on both databases: what always holds, held against the simplest model."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onward import Client
from onward.core.failures.breaker import Answer, BreakerSettings

START = datetime(2026, 3, 1, tzinfo=UTC)
SETTINGS = BreakerSettings.of(failures=2, window="1m", hold="20s", patience="30s")
ANSWERS = {
    "good": Answer(good=True),
    "back": Answer(pushed_back=True),
    "later": Answer(pushed_back=True, retry_after=timedelta(seconds=90)),
    "nothing": Answer(),
}

places = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("ask")),
    st.tuples(st.just("ask")),
    st.tuples(st.just("answer"), places, st.sampled_from(list(ANSWERS))),
    st.tuples(st.just("answer"), places, st.sampled_from(list(ANSWERS))),
    st.tuples(st.just("wait"), st.sampled_from([1, 10, 25, 45])),
    st.tuples(st.just("open"), st.sampled_from([None, 40])),
    st.tuples(st.just("close")),
)


@dataclass
class History:
    """Drives a breaker, and knows what must be true of it."""

    client: Client
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    now: datetime = START
    asked: int = 0
    calls: list[str | None] = field(default_factory=list)
    probe_until: datetime | None = None
    holder: str | None = None
    doubted: bool = False
    forced_until: datetime | None = None

    def ask(self) -> None:
        self.asked += 1
        probe = f"w/{self.asked}"
        before = self.client.at(self.now).breakers.get(self.name)
        told = self.client.at(self.now).worker.breakers.ask(self.name, probe, SETTINGS)
        expected = {"closed": {"go", "probe", "wait"}, "open": {"held"}, "half_open": {"probe", "wait"}}
        assert told.entry in expected[before.state]
        if self.forced_until is not None and self.now < self.forced_until:
            assert told.entry == "held", "what an operator holds nobody gets past"
        if told.entry == "go":
            assert not self.doubted, "after an answer that pushed back nobody calls without the probe"
            self.calls.append(None)
        elif told.entry == "probe":
            assert self.probe_until is None or self.probe_until <= self.now, "two have the probe"
            self.holder, self.probe_until = probe, self.now + SETTINGS.patience
            self.calls.append(probe)
        elif told.entry == "held":
            assert told.wait is None or told.wait > timedelta()

    def answer(self, place: int, kind: str) -> None:
        if place >= len(self.calls):
            return
        probe = self.calls.pop(place)
        self.asked += 1
        answer = replace(ANSWERS[kind], job_id=f"job{self.asked % 4}")
        if answer.good and probe is None:
            # A worker says nothing of a good answer that it got without the probe.
            return
        before = self.client.at(self.now).breakers.get(self.name)
        self.client.at(self.now).worker.breakers.answered(self.name, probe, answer, SETTINGS)
        after = self.client.at(self.now).breakers.get(self.name)
        held = self.forced_until is not None and self.now < self.forced_until
        if answer.pushed_back:
            self.doubted = True
            assert not after.clean
            if before.state == "half_open":
                assert after.state == "open", "who tries in vain holds it again"
        elif answer.good and not held:
            assert after.clean
            self.doubted, self.forced_until = False, None
        if probe == self.holder or after.clean or (before.state == "closed" and after.state == "open"):
            self.holder = self.probe_until = None
        if self.holder is not None:
            assert after.probe == self.holder, "another's answer took a probe away"

    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def open(self, seconds: int | None) -> None:
        until = None if seconds is None else self.now + timedelta(seconds=seconds)
        opened = self.client.at(self.now).breakers.open(self.name, reason="r", until=until)
        assert (opened.state, opened.forced, opened.until) == ("open", True, until)
        self.forced_until = until or datetime(2100, 1, 1, tzinfo=UTC)
        self.doubted, self.holder, self.probe_until = True, None, None

    def close(self) -> None:
        before = self.client.at(self.now).breakers.get(self.name)
        assert self.client.at(self.now).breakers.close(self.name, reason="r").changed != before.clean
        assert self.client.at(self.now).breakers.get(self.name).clean
        self.doubted, self.holder, self.probe_until, self.forced_until = False, None, None, None


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, max_size=25))
def test_random_histories_keep_what_must_hold(client: Client, history):
    run = History(client)
    for name, *arguments in history:
        getattr(run, name)(*arguments)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.001, 7), min_size=30, max_size=60), st.sampled_from([None, 1, 10, 60]))
def test_at_most_five_calls_in_a_minute_and_with_a_retry_after_one_each_time_it_has_passed(
    client: Client, gaps, retry_after
):
    name, now, calls = uuid.uuid4().hex, START, []
    after = None if retry_after is None else timedelta(seconds=retry_after)
    most = 5 if retry_after is None else 3 + math.ceil(60 / retry_after)
    for number, gap in enumerate(gaps):
        probe = f"w/{number}"
        if client.at(now).worker.breakers.ask(name, probe).entry in {"go", "probe"}:
            calls.append(now)
            answer = Answer(pushed_back=True, retry_after=after, job_id=str(number))
            client.at(now).worker.breakers.answered(name, probe, answer)
        now += timedelta(seconds=gap)
    assert all(sum(at <= other < at + timedelta(minutes=1) for other in calls) <= most for at in calls)
