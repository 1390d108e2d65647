"""A result that is remembered over retries."""

from __future__ import annotations

import pytest

from onward import NewJob, PayloadRejected
from onward.core.work.effect import MAX_RESULT_BYTES
from onward.errors import PayloadTooLarge


def test_steps_are_computed_once_and_may_build_on_each_other(runs):
    ctx, calls = runs.start(), []

    def total() -> int:
        calls.append("total")
        return 5

    def receipt(of: int) -> dict[str, int]:
        calls.append("receipt")
        return {"total": of}

    def handler(ctx) -> dict[str, int]:
        amount = ctx.step("total", total)
        made: dict[str, int] = ctx.step("receipt", lambda: receipt(amount))
        return made

    assert handler(ctx) == {"total": 5}
    assert handler(runs.retry(ctx)) == {"total": 5}
    assert calls == ["total", "receipt"]
    found = runs.client.effects.list(ctx.job.id)
    assert [(effect.name, effect.kind, effect.state) for effect in found] == [
        ("receipt", "step", "done"), ("total", "step", "done"),
    ]  # fmt: skip
    assert [effect.begun_at for effect in found] == [None, None]


def test_a_step_that_failed_left_nothing_and_is_computed_again(runs):
    ctx = runs.start()
    with pytest.raises(ZeroDivisionError):
        ctx.step("total", lambda: 1 // 0)
    assert runs.client.effects.list(ctx.job.id).items == []
    assert runs.retry(ctx).step("total", lambda: 1) == 1


def test_nothing_is_a_result_too(runs):
    ctx = runs.start()
    assert ctx.step("nothing", lambda: None) is None
    assert runs.retry(ctx).step("nothing", pytest.fail) is None


def test_a_result_that_cannot_be_remembered_is_refused_and_nothing_recorded(runs):
    ctx = runs.start()
    with pytest.raises(PayloadRejected, match=r"the result of step 'bad' at \$.a: .* is no number in JSON"):
        ctx.step("bad", lambda: {"a": float("inf")})
    with pytest.raises(PayloadRejected, match="is an object"):
        ctx.step("bad", object)
    with pytest.raises(PayloadTooLarge, match="the result of step 'bad' takes"):
        ctx.step("bad", lambda: "x" * MAX_RESULT_BYTES)
    assert runs.client.effects.list(ctx.job.id).items == []


def test_another_payload_computes_it_anew(runs):
    ctx = runs.start(key="k", payload={"n": 1})
    assert ctx.step("double", lambda: 2) == 2
    runs.end(ctx)
    runs.client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset", payload={"n": 2}))
    ctx = runs.claim()
    assert ctx.step("double", lambda: 4) == 4
    assert runs.retry(ctx).step("double", pytest.fail) == 4


def test_a_step_that_is_reset_is_computed_again(runs):
    ctx = runs.start()
    assert ctx.step("total", lambda: 1) == 1
    runs.client.effects.reset(ctx.job.id, "total", reason="the price was wrong")
    assert ctx.step("total", lambda: 2) == 2
    assert runs.retry(ctx).step("total", pytest.fail) == 2
