"""S0-88: an operator clears the stamp of an effect to have it done again."""

from __future__ import annotations

import pytest

from onward import AuditFilter, InvalidJob, NewJob
from onward.errors import EffectNotFound


class Provider:
    """Notes the keys that it is given."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, key: str) -> dict[str, int]:
        self.keys.append(key)
        return {"n": len(self.keys)}


def test_a_reset_has_the_effect_done_again_under_a_new_key(runs):  # S0-88
    ctx, send = runs.start(key="k", org_id="acme"), Provider()
    ctx.once("send", send)
    runs.end(ctx)
    reset = runs.client.acting_as("user:ada").effects.reset(ctx.job.id, "send", reason="bounced")
    assert (reset.state, reset.result, reset.done_at) == ("reset", None, None)
    # "Reset job to pending": the same payload, by its key.
    runs.client.enqueue(NewJob(job_type="t", key="k", org_id="acme", on_conflict="reset"))
    again = runs.claim()
    assert again.once("send", send) == {"n": 2}
    assert runs.retry(again).once("send", pytest.fail) == {"n": 2}
    assert len(set(send.keys)) == 2
    assert send.keys[1] == reset.key
    [record] = runs.client.audit.list(AuditFilter(event="effect.reset"))
    assert (record.job_id, record.org_id, record.actor_type, record.actor_id) == (
        ctx.job.id, "acme", "user", "ada",
    )  # fmt: skip
    assert record.detail == {"effect": "send", "reason": "bounced"}


def test_a_reset_while_the_effect_is_being_done_holds_from_the_next_attempt_on(runs):
    ctx, provider = runs.start(), Provider()

    def send(key: str) -> dict[str, int]:
        runs.client.effects.reset(ctx.job.id, "send", reason="wrong address")
        return provider(key)

    assert ctx.once("send", send) == {"n": 1}
    [effect] = runs.client.effects.list(ctx.job.id)
    assert effect.state == "reset"
    again = runs.retry(ctx)
    assert again.once("send", provider) == {"n": 2}
    assert len(set(provider.keys)) == 2


def test_a_reset_while_a_step_is_computed_holds_from_the_next_attempt_on(runs):
    ctx = runs.start()
    ctx.step("total", lambda: 1)
    runs.client.effects.reset(ctx.job.id, "total", reason="r")
    ctx.step("total", lambda: [runs.client.effects.reset(ctx.job.id, "total", reason="r") and 2])
    assert runs.retry(ctx).step("total", lambda: 3) == 3


def test_a_reset_names_an_effect_that_is_there_and_says_why(runs):
    ctx = runs.start(org_id="acme")
    ctx.once("send", lambda: None)
    reset = runs.client.effects.reset
    with pytest.raises(EffectNotFound, match="no effect 'sent' of job"):
        reset(ctx.job.id, "sent", reason="typo")
    with pytest.raises(EffectNotFound):
        runs.client.for_org("bolt").effects.reset(ctx.job.id, "send", reason="not theirs")
    with pytest.raises(InvalidJob, match="reason is empty"):
        reset(ctx.job.id, "send", reason="")
    with pytest.raises(InvalidJob, match=r"effect .* NUL"):
        reset(ctx.job.id, "a\0b", reason="r")
    assert list(runs.client.audit.list(AuditFilter(event="effect.reset"))) == []


def test_a_secret_in_the_reason_is_not_kept(runs):
    ctx = runs.start()
    ctx.once("send", lambda: None)
    runs.client.effects.reset(ctx.job.id, "send", reason="password=hunter2hunter2")
    [record] = runs.client.audit.list(AuditFilter(event="effect.reset"))
    assert "hunter2" not in str(record.detail)
