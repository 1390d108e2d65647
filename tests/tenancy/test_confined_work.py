"""Work by a client of one org or project: it claims, extends and ends jobs of that one, and of no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from onward import (
    AuditFilter,
    Client,
    Failed,
    JobState,
    LeaseLost,
    Limit,
    NewJob,
    NotAllowed,
    Onward,
    Snooze,
    Succeeded,
)
from onward.core.jobs.job import Job
from onward.core.policy.application import DeclaredTypes
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.records.usage import Usage
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.job_end import JobEnd, ParkedForm
from onward.core.work.lease import JobLease
from onward.core.work.progress import JobReport, Report
from onward.errors import InvalidSetting, WorkerLost
from tests.stores.postgres.postgres_schema import clean_schema
from tests.tenancy.plain_role import plain_role

QUEUE = "q:default"
LEASE = timedelta(minutes=1)


class Parties(NamedTuple):
    """A client of all orgs, and one of each org; with row security those have a role of their own."""

    all: Client
    acme: Client
    bolt: Client

    def job(self, org: str | None = "acme", **fields: Any) -> str:
        return self.all.enqueue(NewJob(job_type="t", org_id=org, **fields)).id


@pytest.fixture(params=["sqlite", "postgres", "row security"])
def parties(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Parties]:
    if request.param == "sqlite":
        with Client(f"sqlite:///{tmp_path}/onward.db") as client:
            yield registered(client, client)
        return
    with clean_schema(request.getfixturevalue("postgres_url")) as store:
        client = Client(store=store)
        if request.param == "postgres":
            yield registered(client, client)
            return
        with plain_role(store) as confined, Client(store=confined) as application:
            yield registered(client, application)


def registered(client: Client, application: Client) -> Parties:
    if client.store.database == "sqlite":
        client.migrate()
    acme, bolt = application.for_org("acme"), application.for_org("bolt")
    acme.worker.register("of acme", lease=LEASE)
    bolt.worker.register("of bolt", lease=LEASE)
    client.worker.register("of all", lease=LEASE)
    return Parties(client, acme, bolt)


def test_a_claim_of_one_org_passes_over_the_jobs_of_others_and_of_none(parties):  # R14 S4-50
    parties.job("bolt", priority=0)
    parties.job(None, priority=0)
    own = [parties.job("acme", priority=level) for level in (2, 1)]
    claimed = parties.acme.worker.claim(QUEUE, 10, worker_id="of acme")
    assert [job.id for job in claimed] == own[::-1]
    assert {(job.state, job.worker_id, job.org_id) for job in claimed} == {("running", "of acme", "acme")}
    assert parties.acme.worker.claim(QUEUE, 10, worker_id="of acme") == []
    assert len(parties.all.worker.claim(QUEUE, 10, worker_id="of all")) == 2


def test_a_claim_of_one_org_takes_only_the_types_that_it_names(parties):  # R14
    parties.job()
    other = parties.all.enqueue(NewJob(job_type="other", org_id="acme")).id
    claimed = parties.acme.worker.claim(QUEUE, 10, worker_id="of acme", job_types=["other"])
    assert [job.id for job in claimed] == [other]


@pytest.mark.parametrize("level", ["off", "ends", "full"])
def test_a_claim_of_one_org_works_at_every_level_of_the_audit(tmp_path, level):  # R14
    app = Onward(f"sqlite:///{tmp_path}/onward.db", audit=level)
    for org in ("bolt", "acme"):
        app.client.enqueue(NewJob(job_type="t", org_id=org))
    acme = app.client.for_org("acme")
    acme.worker.register("of acme")
    [job] = acme.worker.claim(QUEUE, 10, worker_id="of acme")
    assert (job.org_id, job.state) == ("acme", "running")
    assert acme.worker.finish([job.end_with(Succeeded())]).held == {job.id}
    app.close()


def test_a_claim_of_one_org_heeds_the_gate_and_the_pauses_whatever_its_caller_watches(parties):  # R14
    parties.job()
    worker = parties.acme.worker

    def claim() -> list[Job]:
        jobs: list[Job] = worker.claim(QUEUE, worker_id="of acme", paused_orgs=(), paused_types=())
        return jobs

    parties.all.gate.close(reason="r")
    assert claim() == []
    parties.all.gate.open()
    for noun, name in (("queues", QUEUE), ("job_types", "t"), ("orgs", "acme")):
        getattr(parties.all, noun).pause(name, reason="r")
        assert claim() == []
        getattr(parties.all, noun).resume(name)
    parties.all.usage.set_budget("acme", limit_micros=1, period="total", reason="r")
    [job] = parties.all.worker.claim(QUEUE, worker_id="of all")
    spent = (Usage.checked("token", 1, 1),)
    parties.all.worker.write([DEFAULT_POLICIES.end_of(job, Snooze(timedelta()), 0.5, spent)])
    assert claim() == []
    parties.all.usage.remove_budget("acme", reason="r")
    parties.all.orgs.pause("bolt", reason="r")
    assert len(claim()) == 1


def test_a_queue_whose_policy_counts_the_jobs_of_all_orgs_is_refused_to_one(parties):  # R14
    parties.job()
    parties.all.queues.limit(QUEUE, concurrency=1, reason="r")
    with pytest.raises(NotAllowed, match=r"has a policy, which counts the jobs of all orgs.*org 'acme'"):
        parties.acme.worker.claim(QUEUE, worker_id="of acme")
    [job] = parties.all.worker.claim(QUEUE, 10, worker_id="of all")
    assert parties.all.jobs.get(job.id).state == JobState.RUNNING


def test_a_declared_policy_is_refused_to_one_org_before_a_worker_has_stored_it(app: Onward):  # R14
    app.queue(QUEUE, concurrency=1)
    with pytest.raises(NotAllowed, match="has a policy"):
        app.client.for_org("acme").worker.claim(QUEUE, worker_id="w")


def test_a_claim_of_a_queue_with_a_stored_limit_keeps_to_it(parties):
    jobs = {parties.job(), parties.job()}
    parties.all.queues.limit(QUEUE, concurrency=1, reason="r")
    [first] = parties.all.worker.claim(QUEUE, 10, worker_id="of all")
    assert first.id in jobs
    assert parties.all.worker.claim(QUEUE, 10, worker_id="of all") == []


def test_the_worker_of_one_org_serves_no_client_of_another(parties):  # R14 A17
    mine, theirs = parties.job("acme"), parties.job("bolt")
    for name in ("of acme", "of all", "of nobody"):
        with pytest.raises(WorkerLost):
            parties.bolt.worker.claim(QUEUE, worker_id=name)
        with pytest.raises(WorkerLost):
            parties.bolt.worker.extend(name, [], lease=LEASE)
        assert not parties.bolt.worker.retire(name).changed
    with pytest.raises(InvalidSetting, match="is taken"):
        parties.bolt.worker.register("of acme")
    assert {parties.all.jobs.get(job).state for job in (mine, theirs)} == {JobState.QUEUED}
    assert {(one.id, one.org_id, one.lost_at) for one in parties.all.workers.list()} == {
        ("of acme", "acme", None),
        ("of bolt", "bolt", None),
        ("of all", None, None),
    }


def test_a_worker_of_one_org_is_told_which_of_its_jobs_it_holds_and_which_to_cancel(parties):  # R14
    mine, theirs = parties.job("acme"), parties.job("bolt")
    [job] = parties.acme.worker.claim(QUEUE, worker_id="of acme")
    [other] = parties.bolt.worker.claim(QUEUE, worker_id="of bolt")
    parties.acme.jobs.cancel(mine, reason="r")
    leases = parties.acme.worker.extend("of acme", [job.held_lease, other.held_lease], lease=LEASE)
    assert (leases.held, leases.lost, leases.cancel_requested) == ({mine}, {theirs}, {mine})


def test_ends_of_another_org_are_lost_leases_and_nothing_is_written_of_them(parties):  # R14 A17
    theirs = parties.job("bolt")
    [job] = parties.bolt.worker.claim(QUEUE, worker_id="of bolt")
    before = parties.all.jobs.events(theirs)
    for outcome in (Succeeded(1), Failed("no"), Snooze(LEASE)):
        leases = parties.acme.worker.finish([job.end_with(outcome)])
        assert (leases.held, leases.lost) == (frozenset(), {theirs})
    assert parties.acme.worker.release([job.held_lease]).lost == {theirs}
    with pytest.raises(LeaseLost):
        parties.acme.worker.note(job.held_lease, "noted")
    assert parties.acme.worker.store_progress([JobReport.of(job, Report(1))]) == frozenset()
    found = parties.all.jobs.get(theirs)
    assert (found.state, found.lease, found.progress) == (JobState.RUNNING, job.lease, None)
    assert parties.all.jobs.events(theirs) == before
    assert parties.bolt.worker.finish([job.end_with(Succeeded())]).held == {theirs}


def test_a_worker_of_one_org_ends_releases_notes_and_reports_its_own_jobs(parties):  # R14
    jobs = [parties.job() for _ in range(5)]
    done, failed, released, parked, stale = parties.acme.worker.claim(QUEUE, 5, worker_id="of acme")
    assert parties.acme.worker.note(done.held_lease, "noted") > 0
    assert parties.acme.worker.store_progress([JobReport.of(done, Report(1, 2))]) == frozenset()
    assert parties.all.jobs.get(done.id).progress is not None
    wait = JobEnd(parked.id, parked.lease, parked.attempt, ParkedForm(event="paid", key="k"))
    ends = [done.end_with(Succeeded({"n": 1})), failed.end_with(Failed("no", retryable=False)), wait]
    assert parties.acme.worker.finish(ends).held == {done.id, failed.id, parked.id}
    assert parties.acme.worker.release([released.held_lease]).held == {released.id}
    late = parties.acme.worker.finish([JobEnd(stale.id, stale.lease - 1, 1, Succeeded())])
    assert (late.held, late.lost) == (frozenset(), {stale.id})
    states = {job_id: job.state for job_id, job in parties.all.jobs.get_many(jobs).items()}
    assert [states[job.id] for job in (done, failed, released, parked, stale)] == [
        "succeeded", "dead", "queued", "scheduled", "running",
    ]  # fmt: skip
    refused = parties.acme.audit.list(AuditFilter(event="job.stale_result_rejected"))
    assert [line.job_id for line in refused] == [stale.id]
    assert parties.acme.signals.send("paid", "k").woken == 1


def test_a_job_that_was_reset_while_a_worker_of_its_org_ran_it_starts_again(parties):  # R14
    new = NewJob(job_type="t", key="k", on_conflict="reset")
    parties.acme.enqueue(new)
    [job] = parties.acme.worker.claim(QUEUE, worker_id="of acme")
    parties.acme.enqueue(new)
    parties.acme.worker.finish([job.end_with(Succeeded())])
    [again] = parties.acme.worker.claim(QUEUE, worker_id="of acme")
    assert (again.id, again.attempt) == (job.id, 1)
    assert again.lease > job.lease


def test_followers_and_batches_of_a_confined_end_are_left_to_the_loops_of_a_worker(parties):  # R14
    job, follower, after = (NewJob(job_type="t") for _ in range(3))
    first = parties.acme.enqueue(job).id
    second = parties.acme.enqueue(msgspec.structs.replace(follower, after=(first,))).id
    batch = parties.acme.batches.enqueue([job], on_success=after).id
    jobs = parties.acme.worker.claim(QUEUE, 9, worker_id="of acme")
    leases = parties.acme.worker.finish([job.end_with(Succeeded()) for job in jobs])
    assert leases.held == leases.tied == {job.id for job in jobs}
    assert parties.all.worker.follow_up() > 0
    ready = parties.acme.worker.claim(QUEUE, 9, worker_id="of acme")
    assert len(ready) == 2
    assert second in {job.id for job in ready}
    assert parties.acme.batches.get(batch).ended_at is not None


def test_a_confined_end_is_not_told_of_the_pending_work_of_other_orgs(parties):  # R14 A17
    theirs = parties.job("bolt")
    parties.bolt.enqueue(NewJob(job_type="t", after=(theirs,)))
    [job] = parties.bolt.worker.claim(QUEUE, worker_id="of bolt")
    assert parties.bolt.worker.finish([job.end_with(Succeeded())]).tied == {theirs}
    parties.job("acme")
    [own] = parties.acme.worker.claim(QUEUE, worker_id="of acme")
    assert parties.acme.worker.finish([own.end_with(Succeeded())]).tied == frozenset()


def test_the_permit_of_a_confined_end_is_passed_on_by_the_loops_of_a_worker(app: Onward):  # R14
    @app.job(queue=QUEUE, limit=Limit(1))
    def limited() -> None: ...

    waiting = {limited.using(org_id="acme").enqueue().id for _ in range(2)}
    acme, limits = app.client.for_org("acme"), app.client.worker.limits
    limits.declare(app.policies.registry.limits)
    acme.worker.register("of acme")
    for _ in range(2):
        limits.admit(limits.find().keys)
        [job] = acme.worker.claim(QUEUE, 9, worker_id="of acme")
        waiting.remove(job.id)
        assert acme.worker.finish([job.end_with(Succeeded())]).held == {job.id}
    assert not waiting


def test_lost_workers_of_one_org_are_rescued_with_those_of_all(parties):  # R14
    mine = parties.job()
    parties.acme.worker.claim(QUEUE, worker_id="of acme")
    now = parties.all.jobs.get(mine).started_at
    assert now is not None
    assert parties.all.at(now + 2 * LEASE).worker.rescue().held == {mine}
    with pytest.raises(WorkerLost):
        parties.acme.worker.extend("of acme", [], lease=LEASE)


def test_a_worker_that_retires_is_rescued_at_once_and_leads_nothing(parties):  # R14
    mine = parties.job()
    parties.acme.worker.claim(QUEUE, worker_id="of acme")
    assert parties.acme.worker.retire("of acme").changed
    assert parties.all.worker.rescue().held == {mine}
    with pytest.raises(NotAllowed):
        parties.acme.worker.lead("sweeper", "of acme")


def test_what_a_worker_of_one_org_reports_counts_for_that_org_only(parties):  # R14
    parties.acme.worker.register("knows t", info={"job_types": ["t"], "application": "other"})
    assert parties.all.worker.type_unknown_for("t") is None
    assert parties.all.worker.type_unknown_for("t", org_id="bolt") is None
    assert parties.all.worker.type_unknown_for("t", org_id="acme") is not None


def test_the_worker_of_one_org_keeps_no_worker_of_all_from_its_start(parties):  # R14
    signatures = {"t": "another"}
    parties.acme.worker.register("clashes", info={"application": "other", "signatures": signatures})
    parties.all.worker.register("starts")
    parties.all.worker.check_declared("starts", DeclaredTypes("shop", {"t": "one"}))


def test_the_doctor_counts_no_worker_of_one_org_on_the_jobs_of_all(client):  # R14
    def codes(findings: Iterable[Finding]) -> set[tuple[str, str]]:
        return {(one.code, one.severity) for one in findings}

    mine, theirs = (client.enqueue(NewJob(job_type="t", org_id=org)).id for org in ("acme", "bolt"))
    checked = codes(client.doctor.check())
    client.for_org("acme").worker.register("of acme")
    assert codes(client.doctor.check()) == checked
    assert ("no_worker", "problem") in codes(client.doctor.explain(theirs))
    assert ("no_worker", "problem") not in codes(client.doctor.explain(mine))


def test_the_worker_of_one_project_works_for_that_project_only(client):  # R29
    places: list[dict[str, Any]] = [
        {"org_id": "acme", "project_id": "p"},
        {"org_id": "acme", "project_id": "q"},
        {"org_id": "acme"},
    ]
    jobs = [client.enqueue(NewJob(job_type="t", **place)).id for place in places]
    acme = client.for_org("acme")
    p, q = acme.for_project("p"), acme.for_project("q")
    p.worker.register("of p")
    for other in (q, acme.for_project("nothing"), client.for_org("bolt")):
        with pytest.raises(WorkerLost):
            other.worker.claim(QUEUE, worker_id="of p")
        assert not other.worker.retire("of p").changed
    [job] = p.worker.claim(QUEUE, 9, worker_id="of p")
    assert job.id == jobs[0]
    assert q.worker.finish([job.end_with(Succeeded())]).lost == {job.id}
    assert p.worker.finish([job.end_with(Succeeded())]).held == {job.id}
    # A client of the org reaches the workers of its projects, as it does their jobs.
    assert acme.worker.retire("of p").changed
    assert client.workers.show("of p").project_id == "p"


def test_a_job_that_is_not_there_is_lost_and_not_audited(client):
    client.worker.register("w")
    missing = JobLease("0199c000-0000-7000-8000-000000000000", 1, 1)
    assert client.worker.release([missing]).lost == {missing.job_id}
    assert client.audit.list(AuditFilter(event="job.stale_result_rejected")).items == []
