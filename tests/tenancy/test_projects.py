"""The matrix once more, about two projects of one org: to a client of one, the other is as absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward import Client, Context, JobNotFound, JobState, NewJob, NotAllowed, Onward
from tests.stores.postgres.postgres_schema import clean_schema
from tests.tenancy.test_matrix import ABOUT_ALL, ABOUT_AN_ORG, REFUSED, answer
from tests.tenancy.world import POLICIES, Owner, World, inhabited

FIRM = "the firm"
NOBODY = Owner("nemo", firm=FIRM)

# About an org itself, its budget and its pauses, or asked by the name of an org.
ABOUT_ORGS = {
    "for_org 0", "for_project 0", "orgs.pause 0", "orgs.resume 0", "gate.status 0", "usage.budgets 0",
    "usage.report 0", "audit.list 0", "dead.groups 0", "dead.list 0",
}  # fmt: skip
QUESTIONS = {f"{name} {at}": call for name, calls in ABOUT_AN_ORG.items() for at, call in enumerate(calls)}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two projects of one org on one database."""
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("projects")
        with Client(f"sqlite:///{folder}/onward.db", policies=POLICIES) as client:
            yield inhabited(client, firm=FIRM)
        return
    with clean_schema(request.getfixturevalue("postgres_url")) as store:
        yield inhabited(Client(store=store, policies=POLICIES), firm=FIRM)


@pytest.mark.parametrize("name", sorted(QUESTIONS.keys() - ABOUT_ORGS))
def test_another_project_is_as_absent_and_none_of_its_rows_is_touched(world, name):  # R29 S4-3
    call = QUESTIONS[name]
    theirs = world.told(answer(call, world.b, world.a), world.a)
    nobodys = world.told(answer(call, world.b, NOBODY), NOBODY)
    assert theirs == nobodys
    own = world.told(answer(call, world.b, world.own), world.own)
    assert own != nobodys, "the question tells nothing: it is answered alike for who is there"
    assert world.rows_of_a() == world.before


@pytest.mark.parametrize("name", ABOUT_ALL)
def test_all_that_a_client_of_one_project_is_given_is_of_that_project(world, name):  # R29
    given = repr(answer(ABOUT_ALL[name], world.b, world.own))
    assert world.a.org_id not in given
    assert "'of': 'all'" not in given
    assert world.rows_of_a() == world.before


@pytest.mark.parametrize("name", REFUSED)
def test_what_concerns_others_is_refused_to_a_client_of_one_project(world, name):  # R29
    with pytest.raises(NotAllowed, match="confined to org 'the firm' and project 'bolt'"):
        REFUSED[name](world.b, world.own)
    assert world.rows_of_a() == world.before


def test_a_client_of_one_project_may_not_pause_its_org(world):  # R29
    with pytest.raises(NotAllowed, match="concerns more than one project"):
        world.b.orgs.pause(FIRM, reason="r")


def test_a_project_alone_confines_too(client):  # R29
    theirs = client.enqueue(NewJob(job_type="t", project_id="q")).id
    with pytest.raises(JobNotFound):
        client.for_project("p").jobs.cancel(theirs, reason="r")
    with pytest.raises(NotAllowed, match="confined to project 'p'"):
        client.for_project("p").gate.close(reason="r")


@pytest.mark.anyio
async def test_a_handler_is_confined_to_the_project_of_its_job(app: Onward):  # R29 R30 S4-3
    other = app.client.enqueue(NewJob(job_type="idle", queue="q:idle", org_id="acme", project_id="q")).id
    of_org = app.client.enqueue(NewJob(job_type="idle", queue="q:idle", org_id="acme")).id

    @app.job
    def tries(ctx: Context) -> list[Any]:
        for client in (ctx.client, app.client):
            for absent in (other, of_org):
                with pytest.raises(JobNotFound):
                    client.jobs.cancel(absent, reason="r")
            with pytest.raises(NotAllowed):
                client.for_project("q").jobs.list()
        for enqueue in (ctx.enqueue, app.client.enqueue):
            with pytest.raises(NotAllowed, match="runs for project 'p'"):
                enqueue(NewJob(job_type="child", project_id="q"))
        child = ctx.enqueue(NewJob(job_type="child", queue="q:idle")).refresh()
        return [child.org_id, child.project_id]

    handle = tries.using(org_id="acme", project_id="p").enqueue()
    await app.worker(drain=True, queues={"q:default": 1}).run()
    job = handle.refresh()
    assert (job.state, job.result) == (JobState.SUCCEEDED, ["acme", "p"]), job.error
    await app.aclose()


def test_a_signal_reaches_the_jobs_of_its_project_or_of_all_projects_of_its_org(app: Onward):  # R29
    @app.job
    def waits(ctx: Context) -> Any:
        return ctx.wait_for("paid")

    jobs = {p: waits.using(org_id="acme", project_id=p).enqueue() for p in ("p", "q", "r")}
    app.tick()
    with app.context(org_id="acme", project_id="p"):
        assert app.signal("paid", payload="to p").woken == 1
    app.tick()
    assert {p: jobs[p].refresh().state for p in jobs} == {
        "p": JobState.SUCCEEDED, "q": JobState.SCHEDULED, "r": JobState.SCHEDULED,
    }  # fmt: skip
    assert app.signal("paid", org_id="acme", payload="to all").woken == 2
    app.tick()
    assert [jobs[p].refresh().result for p in jobs] == ["to p", "to all", "to all"]
