"""An effect that a retry does not repeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from onward import Category, Context, Failed, InvalidJob, InvalidSetting, NewJob, NotAllowed, Onward
from onward.core.work.effect import MAX_RESULT_BYTES
from tests.work.effects.effect_provider import charge
from tests.work.effects.effect_runs import Runs


class Broken(Exception):
    """What cuts a handler off."""


def fail() -> None:
    raise Broken


def nothing() -> None:
    """Do not fail."""


CUTS: dict[
    str, tuple[Callable[[], None], Callable[[], None], Callable[[], None], Callable[[], None], int]
] = {
    # What happens before the effect is begun, before it is done, before that is recorded, and after; and how
    # often the provider is called in two attempts.
    "before it begins": (fail, nothing, nothing, nothing, 1),
    "before it is done": (nothing, fail, nothing, nothing, 1),
    "before it is recorded": (nothing, nothing, fail, nothing, 2),
    "after it is recorded": (nothing, nothing, nothing, fail, 1),
}


@pytest.mark.parametrize("cut", CUTS)
def test_an_effect_happens_once_wherever_the_first_attempt_is_cut(runs, provider, cut):  # S0-66
    early, undone, unrecorded, late, calls = CUTS[cut]

    def handler(ctx: Context, fails: bool) -> int:
        def pay(key: str) -> int:
            if fails:
                undone()
            number = charge(provider.url, key)
            if fails:
                unrecorded()
            return number

        if fails:
            early()
        paid: int = ctx.once("charge", pay)
        if fails:
            late()
        return paid

    ctx = runs.start()
    with pytest.raises(Broken):
        handler(ctx, fails=True)
    assert handler(runs.retry(ctx), fails=False) == 1
    assert len(provider.calls) == calls
    assert len(provider.effects) == 1


def test_what_was_done_is_skipped_and_its_result_given(runs):  # S0-65, S0-67
    ctx = runs.start()
    assert ctx.once("send", lambda: {"id": 7, "at": [1.5, None]}) == {"id": 7, "at": [1.5, None]}
    again = runs.retry(ctx)
    assert again.once("send", fail) == {"id": 7, "at": [1.5, None]}
    assert again.once("send", fail) == {"id": 7, "at": [1.5, None]}
    [effect] = runs.client.effects.list(ctx.job.id)
    assert (effect.name, effect.kind, effect.state, effect.attempt, effect.lease) == (
        "send",
        "once",
        "done",
        1,
        1,
    )
    assert effect.begun_at <= effect.done_at


def test_one_that_was_begun_by_an_attempt_that_failed_is_begun_by_the_next(runs):
    ctx = runs.start()
    with pytest.raises(Broken):
        ctx.once("send", fail)
    [first] = runs.client.effects.list(ctx.job.id)
    assert (first.state, first.attempt, first.done_at, first.result) == ("begun", 1, None, None)
    again = runs.retry(ctx)
    with pytest.raises(Broken):
        again.once("send", fail)
    [second] = runs.client.effects.list(ctx.job.id)
    assert (second.state, second.attempt, second.lease) == ("begun", 2, again.job.lease)
    assert (second.key, second.begun_at) == (first.key, first.begun_at)


def test_the_key_is_given_to_a_function_that_needs_it_and_is_a_uuid_of_its_own_for_each_name(runs):
    ctx = runs.start(payload={"name": "ada"})
    keys: list[str] = []
    ctx.once("one", keys.append)
    ctx.once("two", lambda key: keys.extend([key]))
    ctx.once("three", partial(lambda other, key: keys.append(key), "other"))
    assert len(set(keys)) == 3
    assert [str(UUID(key)) for key in keys] == keys
    other = runs.start(payload={"name": "ada"})
    other.once("one", keys.append)
    assert len(set(keys)) == 4


def test_a_function_that_needs_no_argument_is_given_none(runs):
    ctx = runs.start()
    assert ctx.once("default", lambda item="own": item) == "own"
    assert ctx.once("any", lambda *args, **options: [len(args), len(options)]) == [0, 0]
    assert ctx.once("in C", dict) == {}


def test_a_function_that_cannot_be_called_so_is_refused_before_anything_is_recorded(runs):
    ctx = runs.start()
    for function in (lambda a, b: None, lambda *, key: None, "send", None):
        with pytest.raises(InvalidSetting, match="effect 'send'"):
            ctx.once("send", function)
    with pytest.raises(InvalidSetting, match="needs key; give one that takes no argument"):
        ctx.step("send", lambda key: key)
    assert runs.client.effects.list(ctx.job.id).items == []


@pytest.mark.anyio
async def test_who_leaves_out_the_name_is_told_where_it_goes(runs):
    ctx: Any = runs.start()
    for take in (ctx.once, ctx.step):
        with pytest.raises(InvalidSetting, match=rf"give a name first: ctx\.{take.__name__}\('mail', fn\)"):
            take(nothing)
    for take in (ctx.aonce, ctx.astep):
        with pytest.raises(InvalidSetting, match="give a name first"):
            await take(nothing)
    with pytest.raises(InvalidSetting, match="effect 'mail': None can't be called; give a function"):
        ctx.once("mail")


@pytest.mark.parametrize("take", ["once", "step"])
def test_an_async_function_is_refused_where_nobody_awaits_it(runs, take):
    ctx, calls = runs.start(), []

    async def send() -> None:
        calls.append(1)

    with pytest.raises(InvalidSetting, match=r"await ctx\.aonce"):
        getattr(ctx, take)("send", send)
    assert calls == []
    assert getattr(runs.retry(ctx), take)("send", lambda: 5) == 5


HOSTILE_NAMES = {
    "": "empty", "a\0b": "NUL", "half \ud800": "surrogate", "x" * 201: "201 bytes", "é" * 101: "202 bytes",
    5: "int",
}  # fmt: skip


def test_a_name_that_cannot_be_stored_is_refused_before_the_function_is_called(runs):
    ctx = runs.start()
    for name, why in HOSTILE_NAMES.items():
        for take in (ctx.once, ctx.step):
            with pytest.raises(InvalidJob, match=f"effect .*{why}"):
                take(name, pytest.fail)


def test_any_other_name_will_do(runs):
    names = ["x" * 200, "zürich ✓", "'; DROP TABLE onward_effects; --", "a\nb", " "]
    ctx = runs.start()
    assert [ctx.once(name, lambda: 1) for name in names] == [1] * 5
    again = runs.retry(ctx)
    assert [again.once(name, fail) for name in names] == [1] * 5


def test_a_result_has_the_same_form_in_the_first_attempt_as_in_a_later_one(runs):
    ctx = runs.start()
    values = {
        "a": (1, 2), "b": date(2026, 1, 2), "c": UUID(int=5), "d": datetime(2026, 1, 2, tzinfo=UTC), "e": {1},
        "f": 12345678901234567.0,
    }  # fmt: skip
    kept = {
        "a": [1, 2], "b": "2026-01-02", "c": str(UUID(int=5)), "d": "2026-01-02T00:00:00Z", "e": [1],
        "f": 12345678901234567.0,
    }  # fmt: skip
    assert ctx.once("send", lambda: values) == kept
    assert runs.retry(ctx).once("send", fail) == kept


class Hostile:
    """A result that can't be looked at."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        return 0


UNSTORABLE = {
    "object": object(), "nan": float("nan"), "hostile": Hostile(), "inside": {"a": [Hostile()]},
    "surrogate": "half \ud800", "nul": "a\0b", "large": {"f": 2**70}, "long": "x" * MAX_RESULT_BYTES,
}  # fmt: skip


def test_a_result_that_cannot_be_stored_is_null_and_never_makes_the_effect_repeat(runs, caplog):
    ctx = runs.start()
    with caplog.at_level("INFO", "onward.job"):
        for name, result in UNSTORABLE.items():
            assert ctx.once(name, lambda: result) is None  # noqa: B023 - it is called at once
    told = [(record.effect, record.event) for record in caplog.records]
    assert told == [
        (name, event) for name in UNSTORABLE for event in ("effect.result_dropped", "effect.done")
    ]
    again = runs.retry(ctx)
    assert [again.once(name, fail) for name in UNSTORABLE] == [None] * len(UNSTORABLE)


def test_the_largest_result_is_kept(runs):
    ctx, large = runs.start(), "x" * (MAX_RESULT_BYTES - 2)
    assert ctx.once("send", lambda: large) == large
    assert runs.retry(ctx).once("send", fail) == large


def test_a_replay_and_a_reset_with_the_same_payload_do_it_no_second_time(runs):  # S0-67
    ctx = runs.start(key="k", payload={"b": {"y": 1, "x": 2.0}, "a": 1})
    keys: list[str] = []
    ctx.once("send", keys.append)
    runs.end(ctx)
    payload = {"a": 1, "b": {"x": 2.0, "y": 1}}
    runs.client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset", payload=payload))
    reset = runs.claim()
    reset.once("send", fail)
    runs.client.worker.finish([reset.job.end_with(Failed("dead", retryable=False))]).require()
    runs.client.dead.replay([reset.job.id], reason="again")
    runs.claim().once("send", fail)
    assert len(keys) == 1


def test_another_payload_does_it_anew_under_another_key_also_when_the_first_one_comes_back(runs):
    keys: list[str] = []
    ctx = runs.start(key="k", payload={"to": "ada"})
    for to in ("bob", "ada", "ada"):
        ctx.once("send", keys.append)
        ctx.once("send", fail)
        runs.end(ctx)
        runs.client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset", payload={"to": to}))
        ctx = runs.claim()
    ctx.once("send", fail)
    assert len(set(keys)) == 3
    [effect] = runs.client.effects.list(ctx.job.id)
    assert (effect.state, effect.generation) == ("done", 2)


def test_a_second_call_of_a_name_is_refused_while_the_first_one_runs(runs):
    ctx, begun, go = runs.start(), threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go.wait(20)
        return "slow"

    given: list[str] = []
    first = threading.Thread(target=lambda: given.append(ctx.once("send", slow)))
    first.start()
    assert begun.wait(20)
    with pytest.raises(
        InvalidSetting, match=r"'send' of job .* is in progress already; give each effect its own"
    ):
        ctx.once("send", fail)
    assert ctx.once("other", lambda: 1) == 1
    go.set()
    first.join()
    assert given == ["slow"]
    assert ctx.once("send", fail) == "slow"


def test_effects_may_be_nested_but_not_in_themselves(runs):
    ctx = runs.start()
    assert ctx.once("outer", lambda: ctx.once("inner", lambda: 1) + 1) == 2
    with pytest.raises(InvalidSetting, match="in progress"):
        ctx.once("self", lambda: ctx.once("self", fail))


def test_only_a_category_that_may_write_domain_tables_has_effects(tmp_path):  # S4-11
    own = Category(name="own", capabilities=frozenset({"audit"}))
    app = Onward(f"sqlite:///{tmp_path}/onward.db", categories=[own])
    ctx = Runs(app).start(category="own")
    with pytest.raises(NotAllowed, match="may not: domain"):
        ctx.once("send", fail)
    assert ctx.step("compute", lambda: 1) == 1
    app.close()


def test_a_job_of_an_org_records_for_its_org_alone(runs):
    ctx = runs.start(org_id="acme")
    ctx.once("send", lambda: 1)
    job_id = ctx.job.id
    assert [effect.name for effect in runs.client.for_org("acme").effects.list(job_id)] == ["send"]
    assert runs.client.for_org("bolt").effects.list(job_id).items == []


def test_the_effects_of_a_job_are_deleted_with_it(runs):
    ctx, other = runs.start(subject="booking:1"), runs.start(subject="booking:2")
    for one in (ctx, other):
        one.once("send", lambda: 1)
        runs.end(one)
    runs.client.jobs.drop_subject("booking:1", policy="delete")
    assert runs.client.effects.list(ctx.job.id).items == []
    assert len(runs.client.effects.list(other.job.id)) == 1
