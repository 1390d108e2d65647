"""How claims are held back and who leads: the gate, pauses, and what a worker sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onward.core.jobs.ids import JobId
from onward.operations.limits import pauses
from onward.operations.work import leader, polls, rescue, work
from tests.connections.scenarios.steps import HOUR, LEASE, NOW, QUEUE, Go, look, put, register, take

__all__ = ["SCENARIOS"]


def claims_are_held_back(go: Go) -> list[JobId]:
    register(go)
    acme, mail, free = put(go, org_id="é"), put(go, "'mail'"), put(go, "report", org_id="other")
    who: dict[str, Any] = {"actor_type": "user", "actor_id": "u", "now": NOW}
    assert go(pauses.pause("org", "é", reason="%s 'r'", **who))
    assert go(pauses.pause("job_type", "'mail'", reason="r", **who))
    assert go(pauses.close_gate(reason="r", **who))
    seen = go(polls.watch("w", now=NOW))
    assert (seen.alive, seen.gate) == (True, pauses.Gate("r", "user", "u", NOW))
    assert seen.pauses == go(pauses.controls()).pauses
    assert pauses.Pause("org", "é", "%s 'r'", "user", "u", NOW) in seen.pauses
    paused = {"paused_orgs": seen.paused("org"), "paused_types": seen.paused("job_type")}
    assert [job.id for job in go(work.claim(QUEUE, 9, worker_id="w", **paused, now=NOW))] == [free.id]
    assert go(polls.look(now=NOW)) == polls.Look(frozenset({QUEUE}), None, NOW)
    assert go(pauses.resume("org", "é", **who))
    assert not go(pauses.resume("org", "é", **who))
    assert [job.id for job in go(work.claim(QUEUE, 9, worker_id="w", paused_types=["'mail'"], now=NOW))] == [
        acme.id
    ]
    assert go(pauses.open_gate(**who))
    return [acme.id, mail.id, free.id]


def one_worker_leads_and_sweeps(go: Go) -> list[JobId]:
    register(go)
    held, later = put(go), put(go, delay=HOUR)
    [job] = take(go)
    assert go(leader.lead("sweeper", "w", ttl=LEASE, now=NOW))
    assert not go(rescue.sweep("x", ttl=LEASE, now=NOW)).leader
    go(pauses.cancel([job.id], reason="é", now=NOW))
    assert go(polls.watch("w", now=NOW)).cancel_requested == {job.id: "é"}
    swept = go(rescue.sweep("x", ttl=LEASE, now=NOW + LEASE))
    assert (swept.leader, swept.leases.held, swept.leases.cancel_requested) == (True, {job.id}, {job.id})
    assert look(go, held.id).state == "cancelled"
    put(go)
    register(go, "dead")
    [job] = take(go, "dead")
    assert go(rescue.rescue_worker("dead", now=NOW)).held == {job.id}
    assert go(leader.abdicate("x")) == {"sweeper"}
    return [held.id, later.id, job.id]


SCENARIOS: list[Callable[[Go], list[JobId]]] = [claims_are_held_back, one_worker_leads_and_sweeps]
