"""R7: only the newest lease of a job records effects; whoever lost it is told, and the audit with it."""

from __future__ import annotations

import pytest

from onward import AuditFilter, LeaseLost, NewJob
from tests.work.effects.effect_provider import charge


def refusals(runs, job_id: str) -> list[object]:
    found = runs.client.audit.list(AuditFilter(job_id=job_id, event="job.stale_result_rejected"))
    return [(record.lease, record.detail) for record in found]


def test_a_worker_that_lost_its_lease_begins_nothing(runs):
    ctx = runs.start()
    again = runs.crash(ctx)
    for take in (ctx.once, ctx.step):
        with pytest.raises(LeaseLost, match=f"job {ctx.job.id}: lease 1 is not the newest, so effect 'send'"):
            take("send", lambda: "late")
    assert runs.client.effects.list(ctx.job.id).items == []
    assert refusals(runs, ctx.job.id) == [(1, {"effect": "send"})] * 2
    assert again.once("send", lambda: "in time") == "in time"


def test_of_two_workers_that_do_it_the_newer_one_records_and_the_provider_counts_one(runs, provider, caplog):
    # S0-65
    ctx = runs.start()
    newer = []

    def slow(key: str) -> int:
        number = charge(provider.url, key)
        newer.append(runs.crash(ctx))
        newer[0].once("charge", lambda key: charge(provider.url, key))
        return number

    with caplog.at_level("INFO", "onward.job"), pytest.raises(LeaseLost, match="was not recorded as done"):
        ctx.once("charge", slow)
    [effect] = runs.client.effects.list(ctx.job.id)
    assert (effect.state, effect.result, effect.lease) == ("done", 1, newer[0].job.lease)
    assert (len(provider.calls), len(provider.effects)) == (2, 1)
    assert refusals(runs, ctx.job.id) == [(1, {"effect": "charge"})]
    assert [record.event for record in caplog.records] == ["effect.done", "effect.unrecorded"]


def test_a_job_that_has_ended_records_nothing(runs):
    ctx = runs.start()
    runs.end(ctx)
    with pytest.raises(LeaseLost):
        ctx.once("send", pytest.fail)


def test_what_is_recorded_in_the_callers_transaction_shares_its_fate(runs, own_connection):
    ctx = runs.start()
    with own_connection() as (connection, rollback):
        effects = runs.client.within(connection).worker.effects
        begun = effects.begin(ctx.job, "send")
        effects.done(ctx.job, begun, {"n": 1})
        effects.remember(ctx.job, "step", 5)
        assert effects.read(ctx.job.id, "step").result == 5
        rollback()
    assert runs.client.effects.list(ctx.job.id).items == []
    assert runs.client.enqueue(NewJob(job_type="t")).created
