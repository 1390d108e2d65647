"""With contract="required" an operator's action names its actor, or is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onward import DeadFilter, Edit, JobFilter, NewJob, Onward
from onward.errors import ContractBroken

ID = "0190a8c0-1111-7000-8000-000000000009"
WHY = {"reason": "why"}
COMPLETE = NewJob(job_type="t", org_id="o", actor_type="user", actor_id="1", request_id="r")
ACTIONS: dict[str, Callable[[Any], object]] = {
    "cancel": lambda c: c.jobs.cancel(ID, **WHY),
    "cancel_where": lambda c: c.jobs.cancel_where(JobFilter(queue="q"), **WHY),
    "cancel_subject": lambda c: c.jobs.cancel_subject("s", **WHY),
    "run a job now": lambda c: c.jobs.run_now(ID, **WHY),
    "drop_subject": lambda c: c.jobs.drop_subject("s"),
    "flows.cancel": lambda c: c.flows.cancel(ID, **WHY),
    "batches.cancel": lambda c: c.batches.cancel(ID, **WHY),
    "pause a queue": lambda c: c.queues.pause("q", **WHY),
    "resume a queue": lambda c: c.queues.resume("q"),
    "limit a queue": lambda c: c.queues.limit("q", concurrency=1, **WHY),
    "pause an org": lambda c: c.orgs.pause("o", **WHY),
    "pause a type": lambda c: c.job_types.pause("t", **WHY),
    "skip a type": lambda c: c.job_types.skip("t", **WHY),
    "unskip a type": lambda c: c.job_types.unskip("t"),
    "close the gate": lambda c: c.gate.close(**WHY),
    "open the gate": lambda c: c.gate.open(),
    "replay": lambda c: c.dead.replay([ID], **WHY),
    "replay_where": lambda c: c.dead.replay_where(DeadFilter(), **WHY),
    "discard": lambda c: c.dead.discard([ID], **WHY),
    "discard_where": lambda c: c.dead.discard_where(DeadFilter(), **WHY),
    "fix": lambda c: c.dead.fix(ID, Edit(patch={"n": 1}), **WHY),
    "fix_where": lambda c: c.dead.fix_where(DeadFilter(), Edit(patch={"n": 1}), **WHY),
    "forget a key": lambda c: c.keys.forget("k", **WHY),
    "set a limit": lambda c: c.limits.set("l", concurrency=1, **WHY),
    "reset a limit": lambda c: c.limits.reset("l", **WHY),
    "add a schedule": lambda c: c.schedules.add("s", COMPLETE, every="1h"),
    "pause a schedule": lambda c: c.schedules.pause("s", **WHY),
    "remove a schedule": lambda c: c.schedules.remove("s", **WHY),
    "run a schedule": lambda c: c.schedules.run_now("s", **WHY),
    "open a breaker": lambda c: c.breakers.open("p", **WHY),
    "mute an alert": lambda c: c.alerts.mute("0123456789ab", **WHY),
    "reset an effect": lambda c: c.effects.reset(ID, "e", **WHY),
    "set a budget": lambda c: c.usage.set_budget("o", limit_micros=1, period="day"),
    "prune the audit": lambda c: c.audit.prune(),
    "send a signal": lambda c: c.signals.send("paid"),
}


@pytest.fixture
def app(make_app: Callable[..., Onward]) -> Onward:
    return make_app(contract="required", tenancy="optional")


@pytest.mark.parametrize("what", ACTIONS)
def test_an_operators_action_without_an_actor_is_refused(app, what):  # R27 S4-1 S4-53
    with pytest.raises(
        ContractBroken, match=r"no actor, and contract='required'; call it on client.acting_as"
    ):
        ACTIONS[what](app.client)
    assert app.client.audit.list().items == []
    assert app.client.gate.status().pauses == frozenset()


@pytest.mark.parametrize(
    "named",
    [lambda app: app.client.acting_as("user:42"), lambda app: app.client],
    ids=["acting_as", "context"],
)
def test_an_action_whose_actor_is_named_is_done_and_audited(app, named: Any):  # R27 S4-1
    with app.context(actor="user:42"):
        named(app).queues.pause("q", reason="r")
    [record] = app.client.audit.list()
    assert (record.event, record.actor_type, record.actor_id) == ("queue.paused", "user", "42")


def test_the_actor_of_a_command_is_enough(app):  # R27
    assert app.client.acting_as("cli:ada").gate.close(reason="r").changed


def test_reading_and_what_workers_do_needs_no_actor(app):  # R27
    assert app.client.jobs.list().items == []
    app.client.worker.register("w")
    assert app.client.worker.claim("q:default", worker_id="w") == []
    assert app.client.audit.verify().intact


@pytest.mark.parametrize("contract", ["off", "optional"])
def test_without_a_required_contract_an_actor_may_be_missing(make_app, contract):  # R27
    app = make_app(contract=contract)
    assert app.client.gate.close(reason="r").changed
