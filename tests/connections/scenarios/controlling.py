"""How claims are held back and who leads: the gate, pauses, and what a worker sees of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward.core.jobs.ids import JobId
from onward.core.limits.pause import Gate, Pause, TypeSkip
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.claim import ReadyQueues
from onward.errors import JobNotScheduled
from onward.operations.jobs import cancel, job_types, run_now
from onward.operations.limits import pauses
from onward.operations.work import claim, leader, polls, rescue
from tests.connections.scenarios.steps import HOUR, LEASE, NOW, QUEUE, Go, look, put, register, take

__all__ = ["SCENARIOS"]


def claims_are_held_back(go: Go) -> list[JobId]:
    register(go)
    acme, mail, free = put(go, org_id="é"), put(go, "'mail'"), put(go, "report", org_id="other")
    assert go(pauses.pause("org", "é", reason="%s 'r'"))
    assert go(pauses.pause("job_type", "'mail'", reason="r"))
    assert go(pauses.close_gate(reason="r"))
    seen = go(polls.instructions("w"))
    assert (seen.alive, seen.gate) == (True, Gate("r", "user", "é", NOW))
    assert seen.pauses == go(pauses.controls()).pauses
    assert Pause("org", "é", "%s 'r'", "user", "é", NOW) in seen.pauses
    paused = {"paused_orgs": seen.paused("org"), "paused_types": seen.paused("job_type")}
    assert [job.id for job in go(claim.claim(QUEUE, 9, worker_id="w", **paused))] == [free.id]
    assert go(polls.ready_queues()) == ReadyQueues(frozenset({QUEUE}), None, NOW)
    assert go(pauses.resume("org", "é"))
    assert not go(pauses.resume("org", "é"))
    assert [job.id for job in go(claim.claim(QUEUE, 9, worker_id="w", paused_types=["'mail'"]))] == [acme.id]
    assert go(pauses.open_gate())
    assert go(pauses.skip("'mail'", reason="é"))
    assert not go(pauses.skip("'mail'", reason="é"))
    assert go(polls.instructions("w")).skips == {TypeSkip("'mail'", "é", "user", "é", NOW)}
    known = {one.name: one for one in go(job_types.list_job_types(DEFAULT_POLICIES))}
    assert (known["'mail'"].purpose, known["'mail'"].workers, known["'mail'"].skip) == (
        "é",
        1,
        TypeSkip("'mail'", "é", "user", "é", NOW),
    )
    assert go(pauses.unskip("'mail'"))
    return [acme.id, mail.id, free.id]


def one_worker_leads_and_sweeps(go: Go) -> list[JobId]:
    register(go)
    held, later = put(go), put(go, delay=HOUR)
    [job] = take(go)
    assert go(leader.lead("sweeper", "w", ttl=LEASE))
    assert not go(rescue.sweep("x", ttl=LEASE)).leader
    go(cancel.cancel([job.id], reason="é"))
    assert go(polls.instructions("w")).cancel_requested == {job.id: "é"}
    swept = go(rescue.sweep("x", ttl=LEASE), at=NOW + LEASE)
    assert (swept.leader, swept.leases.held, swept.leases.cancel_requested) == (True, {job.id}, {job.id})
    assert look(go, held.id).state == "cancelled"
    put(go)
    register(go, "dead")
    [job] = take(go, "dead")
    assert go(rescue.rescue_worker("dead")).held == {job.id}
    assert go(leader.abdicate("x")) == {"sweeper"}
    return [held.id, later.id, job.id]


def a_waiting_job_runs_now(go: Go) -> list[JobId]:
    register(go)
    later, ready = put(go, delay=HOUR, job_type="'é'"), put(go)
    assert go(run_now.run_now(later.id, reason="%s")).run_at == NOW
    with pytest.raises(JobNotScheduled, match="is ready already"):
        go(run_now.run_now(ready.id, reason="%s"))
    assert go(rescue.promote()).queues == {QUEUE: 1}
    assert {job.id for job in take(go)} == {later.id, ready.id}
    return [later.id, ready.id]


SCENARIOS: list[Callable[[Go], list[JobId]]] = [
    claims_are_held_back,
    a_waiting_job_runs_now,
    one_worker_leads_and_sweeps,
]
