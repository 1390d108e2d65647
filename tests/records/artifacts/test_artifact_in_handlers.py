"""S4-13, S4-15: what handlers leave and open, in each kind of executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from onward import Category, Context, JobState, LeaseLost, NewJob, NotAllowed, Onward
from onward.core.policy.policies import Policies
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.errors import ArtifactNotFound
from onward.handlers.clients import Clients
from onward.results import Job
from onward.stores.sqlite.sqlite_store import SqliteStore
from onward.worker.children.process_pool import ProcessPool
from tests.records.artifacts.files import LARGE
from tests.records.artifacts.process_app import copy


@dataclass
class Attempt:
    """A run as its Context and a pool of processes see it."""

    job: Job
    cancel_reason: str | None = None
    artifacts: int = 0
    provider: str | None = None
    used: list[Usage] = field(default_factory=list)
    last_report: Report | None = None

    def wait_cancelled(self, timeout: float) -> bool:
        raise NotImplementedError

    def meter(self, used: Usage) -> None:
        self.used.append(used)

    def usage(self) -> tuple[Usage, ...]:
        return tuple(self.used)

    def report(self, report: Report) -> None:
        raise NotImplementedError

    def beginning(self) -> None:
        raise NotImplementedError

    def undone(self) -> None:
        raise NotImplementedError

    def completing(self, end: End) -> None:
        raise NotImplementedError

    def completed(self, spent: frozenset[str]) -> None:
        raise NotImplementedError


@pytest.fixture
def started(app: Onward):
    """Give the Context of a job that runs."""

    def started(clients: Clients | None = None, **fields) -> Context:
        app.client.worker.register(worker := f"worker of {fields}")
        app.client.enqueue(NewJob(job_type="t", **fields))
        [job] = app.client.worker.claim("q:default", worker_id=worker)
        return Context(Attempt(job), clients or app.clients)

    return started


def test_a_handler_leaves_a_file_that_can_be_read_afterwards(app, tmp_path):  # S4-13, S4-15
    path = tmp_path / "report.csv"
    path.write_bytes(LARGE)

    @app.job
    def report(ctx: Context) -> str:
        ctx.artifact("small.txt", text="a,b", roles=["finance"])
        return ctx.artifact("report.csv", path=path, content_type="text/csv").ref

    handle = report.using(org_id="acme", project_id="p", actor="user:1").enqueue()
    app.tick()
    ref = handle.result(timeout=5)
    client = app.client.for_org("acme")
    assert client.artifacts.read(ref) == LARGE
    artifact, small = client.artifacts.list(job_id=handle.id)
    assert (artifact.ref, artifact.name, artifact.content_type) == (ref, "report.csv", "text/csv")
    assert (artifact.org_id, artifact.project_id, artifact.job_id) == ("acme", "p", handle.id)
    assert (artifact.lease, artifact.attempt, artifact.actor_type, artifact.actor_id) == (1, 1, "user", "1")
    assert client.artifacts.read(small.id, role="finance") == b"a,b"
    events = [event for event in app.client.jobs.events(handle.id) if event.event == "artifact.stored"]
    assert [(event.detail["name"], event.attempt, event.lease) for event in events] == [
        ("small.txt", 1, 1),
        ("report.csv", 1, 1),
    ]


def test_an_async_handler_opens_its_input_and_leaves_its_output(app):  # S4-14
    source = app.client.for_org("acme").artifacts.put("input", LARGE)

    @app.job
    async def double(ctx: Context, source: str) -> str:
        with await ctx.aopen_artifact(source) as file:
            content = file.read()
        return (await ctx.aartifact("output", content * 2)).ref

    handle = double.using(org_id="acme").enqueue(source.ref)
    app.tick()
    assert app.client.artifacts.read(handle.result(timeout=5)) == LARGE * 2


@pytest.mark.anyio
async def test_a_handler_in_a_process_of_its_own_does_the_same(client, place):  # S4-13
    source = client.for_org("acme").artifacts.put("input", LARGE)
    client.worker.register("w")
    client.enqueue(NewJob(job_type=copy.name, org_id="acme", payload={"source": source.ref}))
    [job] = client.worker.claim("q:default", worker_id="w")
    store, attempt = client.store, Attempt(job)
    if isinstance(store, SqliteStore):
        pool = ProcessPool(1, url=f"sqlite:///{store.file.path}")
    else:
        pool = ProcessPool(1, url=store.url, schema=store.prefix.rstrip("."))
    try:
        ref = await pool.run(copy.handler, attempt, timeout=60)
    finally:
        await pool.close()
    assert client.artifacts.read(ref) == LARGE
    assert [found.name for found in client.artifacts.list(job_id=job.id)] == [
        "note.txt",
        "copy.bin",
    ]


def test_a_job_that_must_leave_an_artifact_has_not_succeeded_without(tmp_path):  # S4-13
    plans = Category(name="plans", needs_artifact=True)
    app = Onward(f"sqlite:///{tmp_path}/onward.db", categories=[plans], artifacts=str(tmp_path / "own place"))

    @app.job(category="plans")
    def plan(ctx: Context, size: int) -> None:
        if size:
            ctx.artifact("plan.json", b"x" * size)

    kept, lost = plan.enqueue(20_000), plan.enqueue(0)
    app.tick()
    assert [kept.refresh().state, lost.refresh().state] == [JobState.SUCCEEDED, JobState.DEAD]
    [artifact] = app.client.artifacts.list(job_id=kept.id)
    assert artifact.place == (tmp_path / "own place").as_uri()
    app.close()


def test_a_job_opens_no_artifact_of_another_org_whatever_its_payload_says(app, started):  # A18
    of = {
        org: (app.client.for_org(org) if org else app.client).artifacts.put("n", LARGE)
        for org in ("a", "b", None)
    }
    for org, own in of.items():
        ctx = started(org_id=org)
        with ctx.open_artifact(own.ref) as file:
            assert file.read() == LARGE
        for other in of.keys() - {org}:
            for which in (of[other].id, of[other].ref):
                with pytest.raises(ArtifactNotFound, match=f"no artifact {of[other].id}"):
                    ctx.open_artifact(which)


def test_a_job_that_was_claimed_by_another_worker_can_leave_nothing(app, started):  # R7
    ctx = started()
    assert ctx.artifact("early", b"x").lease == 1
    app.client.worker.retire(ctx.job.worker_id)
    app.client.worker.rescue().require()
    with pytest.raises(LeaseLost):
        ctx.artifact("late", b"x")
    assert [found.name for found in app.client.artifacts.list()] == ["early"]
    assert app.client.jobs.events(ctx.job.id)[-1].event == "job.stale_result_rejected"


def test_a_category_may_deny_artifacts(app, started):
    default = Category(name="default", capabilities=frozenset({"enqueue"}))
    clients = Clients(app.clients.url, schema=app.clients.schema, policies=Policies.of(categories=[default]))
    with pytest.raises(NotAllowed):
        started(clients).artifact("n", b"x")
    assert app.client.artifacts.list().items == []
    clients.close()


def test_a_job_without_orgs_opens_what_was_put_without(tmp_path: Path):
    app = Onward(f"sqlite:///{tmp_path}/onward.db", tenancy="off")
    source = app.client.artifacts.put("n", b"x")

    @app.job
    def size(ctx: Context, source: str) -> int:
        with ctx.open_artifact(source) as file:
            return len(file.read())

    handle = size.enqueue(source.ref)
    app.tick()
    assert handle.result(timeout=5) == 1
    app.close()
