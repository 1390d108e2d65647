"""Every operation of a client of one org, asked about another org: it is as if that one did not exist.

For each operation three questions: about the other org, about one that is not there, and about the own. The
first two must be answered alike, the third otherwise; and of the other org's rows not a byte may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, get_type_hints

import pytest

from onward import (
    AuditFilter,
    Client,
    DeadFilter,
    Edit,
    JobFilter,
    Limit,
    NewJob,
    NotAllowed,
    OnwardError,
    Succeeded,
)
from onward.core.failures.alert import Send, sample
from onward.core.failures.breaker import Answer
from onward.core.policy.application import DeclaredTypes
from onward.operations.schedules.fire import Known
from onward.operations.schedules.schedules import checked_schedule
from tests.stores.postgres.postgres_schema import clean_schema
from tests.tenancy.plain_role import plain_role
from tests.tenancy.work_questions import WORK_QUESTIONS, Call
from tests.tenancy.world import (
    LATER,
    NOBODY,
    NOW,
    POLICIES,
    WORKER,
    Owner,
    World,
    begun,
    group_of,
    inhabited,
    running_job,
)

WHY = {"reason": "why"}
PATCH = Edit(patch={"n": 1})
TIMED = checked_schedule("own", NewJob(job_type="t"), {"every": "1m"}, POLICIES)
SENT = Send("0123456789ab", "log", 1, sample("0123456789ab.1", NOW), 1)

ABOUT_AN_ORG: dict[str, list[Call]] = {
    "acting_as": [lambda c, o: c.acting_as(f"user:{c.org_id}").jobs.get(o.queued)],
    "at": [lambda c, o: c.at(NOW).jobs.get(o.queued)],
    "jobs.attempts": [lambda c, o: c.jobs.attempts(o.retrying)],
    "batches.close": [lambda c, o: c.batches.close(o.open_batch)],
    "batches.enqueue": [
        lambda c, o: len(c.batches.enqueue([NewJob(job_type="t", **o.place)]).jobs),
        lambda c, o: len(c.batches.enqueue([], on_success=NewJob(job_type="t", **o.place)).jobs),
    ],
    "batches.get": [lambda c, o: c.batches.get(o.batch)],
    "batches.jobs": [lambda c, o: len(c.batches.jobs(o.batch))],
    "batches.list": [lambda c, o: c.batches.list(name=f"batch of {o.org_id}")],
    "batches.open": [lambda c, o: len(c.batches.open(on_success=NewJob(job_type="t", **o.place)))],
    "jobs.cancel": [lambda c, o: c.jobs.cancel(o.spare, **WHY)],
    "jobs.run_now": [lambda c, o: c.jobs.run_now(o.scheduled, **WHY).id],
    "batches.cancel": [lambda c, o: c.batches.cancel(o.batch, **WHY)],
    "flows.cancel": [lambda c, o: c.flows.cancel(o.held, **WHY)],
    "jobs.cancel_subject": [lambda c, o: c.jobs.cancel_subject(f"end {o.org_id[::-1]}", **WHY)],
    "jobs.cancel_where": [
        lambda c, o: c.jobs.cancel_where(JobFilter(subject=f"stop {o.org_id[::-1]}"), **WHY),
    ],
    "gate.status": [lambda c, o: [pause for pause in c.gate.status().pauses if o.org_id in pause.name]],
    "jobs.drop_subject": [lambda c, o: c.jobs.drop_subject(o.new("doomed").subject, policy="cancel")],
    "enqueue": [
        lambda c, o: c.enqueue(NewJob(job_type="t", **o.place)).state,
        lambda c, o: c.enqueue(NewJob(job_type="t", parent_id=o.queued)).state,
        lambda c, o: c.enqueue(NewJob(job_type="t", batch_id=o.open_batch)).created,
        lambda c, o: c.enqueue(NewJob(job_type="t", after=(o.running,))).state,
        lambda c, o: c.enqueue(NewJob(job_type="t", after=(o.dead,))).state,
        lambda c, o: c.enqueue(NewJob(job_type="t", key=o.key("queued"))).created,
        lambda c, o: c.enqueue(NewJob(job_type="t", key=o.key("buried"), on_conflict="reset")).created,
    ],
    "enqueue_flow": [
        lambda c, o: len(c.enqueue_flow(NewJob(job_type="t", **o.place).then(NewJob(job_type="t")))),
        lambda c, o: len(c.enqueue_flow(NewJob(job_type="t").then(NewJob(job_type="t", after=(o.queued,))))),
    ],
    "enqueue_many": [
        lambda c, o: len(c.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", **o.place)])),
        lambda c, o: len(c.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", parent_id=o.dead)])),
    ],
    "jobs.events": [lambda c, o: c.jobs.events(o.dead)],
    "for_org": [lambda c, o: c.for_org(o.org_id).org_id],
    "for_project": [lambda c, o: c.for_project("p").enqueue(NewJob(job_type="t", **o.place)).created],
    "jobs.get": [lambda c, o: c.jobs.get(o.queued), lambda c, o: c.jobs.get(o.succeeded)],
    "jobs.get_many": [lambda c, o: c.jobs.get_many([o.running, o.dead])],
    "jobs.list": [
        lambda c, o: c.jobs.list(JobFilter(**o.place)),
        lambda c, o: c.jobs.list(JobFilter(key=o.key("succeeded"))),
        lambda c, o: c.jobs.list(JobFilter(id=o.dead)),
        lambda c, o: c.jobs.list(JobFilter(job_type=f"type of {o.org_id}", state="dead")),
        lambda c, o: c.jobs.list(JobFilter(subject=f"subject of {o.org_id}"), limit=1000),
    ],
    "orgs.pause": [lambda c, o: c.orgs.pause(o.org_id, reason=o.org_id)],
    # Paused again, for those who look at what is paused.
    "orgs.resume": [lambda c, o: (c.orgs.resume(o.org_id), c.orgs.pause(o.org_id, **WHY))],
    "dead.discard": [lambda c, o: c.dead.discard([o.discardable], **WHY)],
    "dead.fix": [lambda c, o: c.dead.fix(o.fixable, PATCH, **WHY).reason],
    "dead.discard_where": [
        lambda c, o: c.dead.discard_where(DeadFilter(subject=f"to discard of {o.org_id}"), **WHY),
    ],
    "dead.fix_where": [
        lambda c, o: c.dead.fix_where(DeadFilter(subject=f"to fix of {o.org_id}"), PATCH, **WHY),
    ],
    "dead.groups": [
        lambda c, o: c.dead.groups(DeadFilter(org_id=o.org_id)),
        lambda c, o: c.dead.groups(DeadFilter(job_type=f"type of {o.org_id}")),
    ],
    "dead.preview": [lambda c, o: c.dead.preview(o.dead, PATCH)],
    "dead.preview_where": [
        lambda c, o: c.dead.preview_where(DeadFilter(job_type=f"type of {o.org_id}"), PATCH),
    ],
    "dead.replay_where": [
        lambda c, o: c.dead.replay_where(DeadFilter(subject=f"to replay of {o.org_id}"), **WHY),
        lambda c, o: c.dead.replay_where(DeadFilter(group=group_of(o)), dry_run=True, **WHY),
    ],
    "dead.get": [lambda c, o: c.dead.get(o.dead), lambda c, o: c.dead.get(o.mended)],
    "dead.history": [lambda c, o: c.dead.history(o.mended)],
    "dead.list": [
        lambda c, o: c.dead.list(DeadFilter(org_id=o.org_id)),
        lambda c, o: c.dead.list(DeadFilter(job_type=f"type of {o.org_id}", resolved="yes")),
        lambda c, o: c.dead.list(DeadFilter(group=group_of(o))),
        lambda c, o: c.dead.list(DeadFilter(subject=f"subject of {o.org_id}")),
    ],
    "dead.origin": [lambda c, o: c.dead.origin(o.successor)],
    "dead.replay": [lambda c, o: c.dead.replay([o.replayable], **WHY)],
    "worker.effects.begin": [lambda c, o: c.worker.effects.begin(running_job(c, o), "mail").state],
    "worker.effects.done": [lambda c, o: c.worker.effects.done(running_job(c, o), begun(c))],
    "effects.list": [lambda c, o: c.effects.list(o.running)],
    "worker.effects.read": [lambda c, o: c.worker.effects.read(o.running, "mail")],
    "worker.effects.remember": [lambda c, o: c.worker.effects.remember(running_job(c, o), "step", {"n": 1})],
    "effects.reset": [lambda c, o: c.effects.reset(o.running, "resettable", **WHY).state],
    "doctor.explain": [lambda c, o: c.doctor.explain(o.queued), lambda c, o: c.doctor.explain(o.dead)],
    "flows.children": [lambda c, o: c.flows.children(o.dead)],
    "flows.followers": [lambda c, o: c.flows.followers(o.queued)],
    "flows.graph": [lambda c, o: c.flows.graph(o.queued)],
    "flows.parents": [lambda c, o: c.flows.parents(o.dead)],
    "keys.get": [lambda c, o: c.keys.get(o.key("succeeded"))],
    "keys.forget": [lambda c, o: c.keys.forget(o.key("retrying"), **WHY)],
    "audit.export": [lambda c, o: list(c.audit.export(AuditFilter(job_id=o.dead)))],
    "audit.list": [
        lambda c, o: c.audit.list(AuditFilter(org_id=o.org_id)),
        lambda c, o: c.audit.list(AuditFilter(job_id=o.succeeded)),
    ],
    "worker.parents": [lambda c, o: c.worker.parents(running_job(c, o).id)],
    "worker.note": [lambda c, o: c.worker.note(running_job(c, o).held_lease, "noted") > 0],
    **WORK_QUESTIONS,
    "worker.artifacts.add": [
        lambda c, o: c.worker.artifacts.add(running_job(c, o), "file", text="new").size,
    ],
    "worker.artifacts.open": [
        lambda c, o: closed(c.worker.artifacts.open(running_job(c, o), o.artifact)),
    ],
    "artifacts.check": [lambda c, o: c.artifacts.check(o.token)],
    "artifacts.delete": [lambda c, o: c.artifacts.delete(o.doomed_artifact, **WHY)],
    "artifacts.get": [lambda c, o: c.artifacts.get(o.artifact)],
    "artifacts.list": [lambda c, o: c.artifacts.list(job_id=o.succeeded)],
    "artifacts.open": [lambda c, o: closed(c.artifacts.open(o.artifact))],
    "artifacts.open_link": [lambda c, o: closed(c.artifacts.open_link(o.token))],
    "artifacts.put": [lambda c, o: c.artifacts.put("file", text="new", job_id=o.queued).size],
    "artifacts.put_file": [lambda c, o: c.artifacts.put_file("file", [b"new"], job_id=o.queued).size],
    "artifacts.read": [lambda c, o: c.artifacts.read(o.artifact)],
    "artifacts.sign": [lambda c, o: c.artifacts.sign(o.artifact)],
    "signals.awaited": [lambda c, o: c.signals.awaited("signal", f"key of {o.org_id}")],
    "worker.signals.find": [
        lambda c, o: c.worker.signals.find(running_job(c, o), "signal", f"kept of {o.org_id}"),
    ],
    "signals.list": [lambda c, o: c.signals.list("signal", f"kept of {o.org_id}")],
    "signals.send": [lambda c, o: o.client(c).signals.send("signal", "other").woken],
    "usage.events": [lambda c, o: c.usage.events(o.succeeded)],
    "usage.report": [lambda c, o: o.client(c).usage.report(("org",))],
    "usage.budgets": [lambda c, o: c.usage.budgets(o.org_id)],
}  # fmt: skip

# Nothing of these tells what belongs to whom; what they give is looked through for the other org's name.
ABOUT_ALL: dict[str, Call] = {
    "gate.status": lambda c, _: c.gate.status(),
    "jobs.count": lambda c, _: c.jobs.count(),
    "stats.counts": lambda c, _: c.stats.counts(),
    "stats.durations": lambda c, _: c.stats.durations(),
    "stats.failures": lambda c, _: c.stats.failures(limit=200),
    "stats.lags": lambda c, _: c.stats.lags(),
    "jobs.list": lambda c, _: c.jobs.list(limit=1000),
    "batches.list": lambda c, _: c.batches.list(limit=1000),
    "dead.groups": lambda c, _: c.dead.groups(),
    "dead.replay_where": lambda c, _: c.dead.replay_where(DeadFilter(), dry_run=True, **WHY),
    "dead.list": lambda c, _: (
        c.dead.list(DeadFilter(resolved="any"), limit=1000),
        c.jobs.list(JobFilter(queue="q:deadletter")),
    ),
    "keys.list": lambda c, _: c.keys.list(limit=1000),
    "audit.export": lambda c, _: list(c.audit.export()),
    "audit.list": lambda c, _: c.audit.list(limit=1000),
    "artifacts.list": lambda c, _: c.artifacts.list(),
    "artifacts.verify": lambda c, _: c.artifacts.verify(),
    "signals.awaited": lambda c, _: c.signals.awaited(),
    "signals.list": lambda c, _: c.signals.list(),
    "usage.report": lambda c, _: c.usage.report(),
    "usage.budgets": lambda c, _: c.usage.budgets(),
    # It leaves the store open, which the next test uses.
    "close": lambda c, _: c.close(),
}

REFUSED: dict[str, Call] = {
    "worker.alerts.gather": lambda c, _: c.at(LATER).worker.alerts.gather(),
    "alerts.list": lambda c, _: c.alerts.list(),
    "alerts.mute": lambda c, _: c.alerts.mute("0123456789ab", **WHY),
    "worker.alerts.observe": lambda c, _: c.worker.alerts.observe([]),
    "worker.alerts.prepare": lambda c, _: c.worker.alerts.prepare(["log"]),
    "worker.alerts.prune": lambda c, _: c.worker.alerts.prune(),
    "worker.alerts.record_send": lambda c, _: c.worker.alerts.record_send(SENT),
    "worker.alerts.take": lambda c, _: c.worker.alerts.take("log", hold=timedelta(seconds=1)),
    "alerts.unmute": lambda c, _: c.alerts.unmute("0123456789ab"),
    "worker.abdicate": lambda c, _: c.worker.abdicate(WORKER),
    "worker.due": lambda c, _: c.worker.due(Known({"t"})),
    "gate.close": lambda c, _: c.gate.close(**WHY),
    "worker.held": lambda c, _: c.worker.held(WORKER),
    "worker.lead": lambda c, _: c.worker.lead("something", WORKER),
    "worker.ready_queues": lambda c, _: c.worker.ready_queues(),
    "migrate": lambda c, _: c.migrate(),
    "gate.open": lambda c, _: c.gate.open(),
    "job_types.pause": lambda c, o: c.job_types.pause(f"type of {o.org_id}", **WHY),
    "job_types.resume": lambda c, o: c.job_types.resume(f"type of {o.org_id}"),
    "job_types.list": lambda c, o: c.job_types.list(),
    "job_types.skip": lambda c, o: c.job_types.skip(f"type of {o.org_id}", **WHY),
    "job_types.unskip": lambda c, o: c.job_types.unskip(f"type of {o.org_id}"),
    "queues.pause": lambda c, o: c.queues.pause(f"queue of {o.org_id}", **WHY),
    "queues.resume": lambda c, o: c.queues.resume(f"queue of {o.org_id}"),
    "workers.list": lambda c, _: c.workers.list(),
    "workers.running": lambda c, _: c.workers.running(WORKER),
    "workers.show": lambda c, _: c.workers.show(WORKER),
    "plan": lambda c, _: c.plan(),
    "worker.promote": lambda c, _: c.at(LATER).worker.promote(),
    "protect_orgs": lambda c, _: c.protect_orgs(enable=False),
    "worker.rescue": lambda c, _: c.at(NOW + timedelta(days=2000)).worker.rescue(),
    "worker.rescue_worker": lambda c, _: c.worker.rescue_worker(WORKER),
    "worker.follow_up": lambda c, _: c.worker.follow_up(),
    "worker.sweep": lambda c, _: c.at(NOW + timedelta(days=2000)).worker.sweep(WORKER),
    "worker.instructions": lambda c, _: c.worker.instructions(WORKER),
    "worker.check_declared": lambda c, _: c.worker.check_declared(WORKER, DeclaredTypes("shop", {})),
    "worker.type_unknown_for": lambda c, o: c.worker.type_unknown_for("t", org_id=o.org_id),
    "worker.write": lambda c, o: c.worker.write([POLICIES.end_of(running_job(c, o), Succeeded(), 0.5)]),
    "audit.prune": lambda c, _: c.audit.prune(before=NOW - timedelta(days=1)),
    "audit.seal": lambda c, _: c.audit.seal(),
    "audit.verify": lambda c, _: c.audit.verify(),
    "audit.verify_in_steps": lambda c, _: list(c.audit.verify_in_steps()),
    "artifacts.prune": lambda c, _: c.at(NOW + timedelta(days=2000)).artifacts.prune(),
    "doctor.check": lambda c, _: c.doctor.check(),
    "worker.breakers.answered": lambda c, o: c.worker.breakers.answered(
        f"crm:{o.org_id}", None, Answer(pushed_back=True)
    ),
    "worker.breakers.ask": lambda c, o: c.worker.breakers.ask(f"crm:{o.org_id}", WORKER),
    "breakers.close": lambda c, o: c.breakers.close(f"crm:{o.org_id}", **WHY),
    "breakers.get": lambda c, o: c.breakers.get(f"crm:{o.org_id}"),
    "breakers.list": lambda c, _: c.breakers.list(),
    "breakers.open": lambda c, o: c.breakers.open(f"crm:{o.org_id}", **WHY),
    "worker.limits.admit": lambda c, o: c.worker.limits.admit([f"sync/{o.org_id}"]),
    "worker.limits.declare": lambda c, _: c.worker.limits.declare({"sync": Limit(1)}),
    "worker.limits.find": lambda c, o: c.worker.limits.find(keys=[f"sync/{o.org_id}"]),
    "worker.limits.forget": lambda c, _: c.worker.limits.forget(),
    "limits.get": lambda c, _: c.limits.get("sync"),
    "limits.list": lambda c, _: c.limits.list(),
    "limits.reset": lambda c, _: c.limits.reset("sync", **WHY),
    "limits.set": lambda c, _: c.limits.set("sync", concurrency=1, **WHY),
    "worker.claim_by_policy": lambda c, o: c.worker.claim_by_policy(f"queue of {o.org_id}", worker_id=WORKER),
    "worker.declare_queues": lambda c, _: c.worker.declare_queues(),
    "queues.get": lambda c, o: c.queues.get(f"queue of {o.org_id}"),
    "queues.limit": lambda c, o: c.queues.limit(f"queue of {o.org_id}", concurrency=1, **WHY),
    "queues.list": lambda c, _: c.queues.list(),
    "queues.reset": lambda c, o: c.queues.reset(f"queue of {o.org_id}", **WHY),
    "schedules.add": lambda c, o: c.schedules.add("own", NewJob(job_type="t", **o.place), every="1m"),
    "worker.schedules.declare": lambda c, _: c.worker.schedules.declare([TIMED]),
    "worker.schedules.fire": lambda c, _: c.at(LATER).worker.schedules.fire(Known({"t"})),
    "schedules.get": lambda c, o: c.schedules.get(f"schedule of {o.org_id}"),
    "schedules.list": lambda c, _: c.schedules.list(),
    "schedules.next_times": lambda c, o: c.schedules.next_times(f"schedule of {o.org_id}"),
    "schedules.pause": lambda c, o: c.schedules.pause(f"schedule of {o.org_id}", **WHY),
    "schedules.put": lambda c, _: c.schedules.put(TIMED),
    "schedules.remove": lambda c, o: c.schedules.remove(f"schedule of {o.org_id}", **WHY),
    "schedules.resume": lambda c, o: c.schedules.resume(f"schedule of {o.org_id}", **WHY),
    "schedules.run_now": lambda c, o: c.schedules.run_now(f"schedule of {o.org_id}", **WHY),
    "schedules.runs": lambda c, o: c.schedules.runs(f"schedule of {o.org_id}"),
    "worker.schedules.declare_built_in": lambda c, _: c.worker.schedules.declare_built_in(),
    "worker.maintenance.keep_place": lambda c, _: c.worker.maintenance.keep_place(None),
    "maintenance.prune": lambda c, _: c.at(NOW + timedelta(days=2000)).maintenance.prune(),
    "worker.maintenance.read_place": lambda c, _: c.worker.maintenance.read_place(),
    "maintenance.report": lambda c, _: c.maintenance.report(),
    "worker.maintenance.tend": lambda c, _: c.worker.maintenance.tend(),
    "signals.prune": lambda c, _: c.at(NOW + timedelta(days=2000)).signals.prune(),
    "worker.signals.wake": lambda c, _: c.worker.signals.wake(),
    "keys.prune": lambda c, _: c.at(NOW + timedelta(days=2000)).keys.prune(),
    "usage.prune": lambda c, _: c.usage.prune(before=NOW + timedelta(days=2000)),
    "usage.set_budget": lambda c, o: c.usage.set_budget(o.org_id, limit_micros=1, period="day"),
    "usage.remove_budget": lambda c, o: c.usage.remove_budget(o.org_id),
}

# Shown by tests of their own.
ELSEWHERE = {"within", "worker.claim", "worker.register"}

# What a client is made of, which is no operation.
PARTS = {"bound", "org_id", "policies", "store"}


def closed(file: IO[bytes]) -> bytes:
    with file:
        return file.read()


def operations(of: type = Client) -> set[str]:
    """Name every public operation of a client and of its parts."""
    found: set[str] = set()
    for name in dir(of):
        value = getattr(of, name)
        if name.startswith("_") or name in PARTS:
            continue
        if isinstance(value, property):
            part = get_type_hints(value.fget)["return"]
            found |= {f"{name}.{one}" for one in operations(part)}
        else:
            found.add(name)
    return found


def test_every_operation_of_a_client_has_its_place_in_this_matrix():
    assert operations() == set(ABOUT_AN_ORG) | set(ABOUT_ALL) | set(REFUSED) | ELSEWHERE


@pytest.fixture(scope="module", params=["sqlite", "postgres", "row security"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two orgs on one database; at last one where the client of B has a role of its own, under policies."""
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("world")
        with Client(f"sqlite:///{folder}/onward.db", policies=POLICIES) as client:
            yield inhabited(client)
        return
    with clean_schema(request.getfixturevalue("postgres_url")) as store:
        if request.param == "postgres":
            yield inhabited(Client(store=store, policies=POLICIES))
            return
        with plain_role(store) as confined, Client(store=confined, policies=POLICIES) as application:
            yield inhabited(Client(store=store, policies=POLICIES), application)


def answer(call: Call, client: Client, owner: Owner) -> object:
    try:
        return call(client, owner)
    except OnwardError as error:
        return error


def of_each(cases: dict[str, list[Call]]) -> list[Any]:
    return [
        pytest.param(call, id=f"{name} {at}")
        for name, calls in cases.items()
        for at, call in enumerate(calls)
    ]


@pytest.mark.parametrize("call", of_each(ABOUT_AN_ORG))
def test_another_org_is_as_absent_and_none_of_its_rows_is_touched(world, call):
    # A16, A17, A18, S4-50
    theirs = world.told(answer(call, world.b, world.a), world.a)
    nobodys = world.told(answer(call, world.b, NOBODY), NOBODY)
    assert theirs == nobodys
    own = world.told(answer(call, world.b, world.own), world.own)
    assert own != nobodys, "the question tells nothing: it is answered alike for who is there"
    assert world.rows_of_a() == world.before


@pytest.mark.parametrize("name", ABOUT_ALL)
def test_all_that_a_client_of_one_org_is_given_is_of_that_org(world, name):
    given = repr(answer(ABOUT_ALL[name], world.b, world.own))
    assert world.a.org_id not in given
    assert "'of': 'all'" not in given, "a job without an org is nobody's"
    assert world.rows_of_a() == world.before


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("whose", ["theirs", "own"])
def test_what_concerns_others_is_refused_to_a_client_of_one_org(world, name, whose):
    with pytest.raises(NotAllowed, match="confined to org 'bolt'"):
        REFUSED[name](world.b, world.a if whose == "theirs" else world.own)
    assert world.rows_of_a() == world.before
