"""`client.for_org()`: the same client for one org, whatever it is bound to, and what it refuses."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest

from onward import Client, InvalidJob, JobFilter, JobNotFound, JobState, NewJob
from onward.core.policy.policies import Policies
from onward.errors import InvalidSetting, NotAllowed
from tests.jobs.inspect.reading import rows
from tests.tenancy.world import connected


def test_a_job_without_an_org_gets_that_of_the_client_and_one_of_another_is_refused(client):
    # A17: what the client is confined to wins, a mismatch is refused, and nothing is written
    acme = client.for_org("acme")
    assert acme.jobs.get(acme.enqueue(NewJob(job_type="t")).id).org_id == "acme"
    for refused in (
        lambda: acme.enqueue(NewJob(job_type="t", org_id="bolt")),
        lambda: acme.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", org_id="bolt")]),
    ):
        with pytest.raises(NotAllowed, match="org_id is 'bolt', and this client is confined to org 'acme'"):
            refused()
    assert len(client.jobs.list().items) == 1


def test_one_key_in_two_orgs_is_two_jobs(client):
    # S4-25, R14
    jobs = [client.for_org(org).enqueue(NewJob(job_type="t", key="k")) for org in ("acme", "bolt")]
    jobs.append(client.enqueue(NewJob(job_type="t", key="k")))
    assert [job.created for job in jobs] == [True, True, True]
    assert len({job.id for job in jobs}) == 3
    again = client.for_org("acme").enqueue(NewJob(job_type="t", key="k"))
    assert (again.id, again.created) == (jobs[0].id, False)


@pytest.mark.parametrize("on_conflict", ["return", "raise", "replace", "reset"])
def test_no_way_to_meet_a_key_reaches_the_holder_of_another_org(client, on_conflict):
    # A18: a key names a job of the own org only
    theirs = client.enqueue(NewJob(job_type="t", key="k", org_id="acme", payload={"of": "acme"}))
    new = NewJob(job_type="t", key="k", on_conflict=on_conflict, payload={"of": "bolt"})
    own = client.for_org("bolt").enqueue(new)
    assert own.created
    assert client.jobs.get(theirs.id).payload == {"of": "acme"}


def test_a_parent_of_another_org_is_refused_like_one_that_never_was(client):
    # A18
    theirs = client.enqueue(NewJob(job_type="t", org_id="acme")).id
    bolt = client.for_org("bolt")
    own = bolt.enqueue(NewJob(job_type="t")).id
    with pytest.raises(NotAllowed, match=f"parent_id {theirs} is no job of org 'bolt'"):
        bolt.enqueue_many([NewJob(job_type="t", parent_id=own), NewJob(job_type="t", parent_id=theirs)])
    assert [job.id for job in bolt.jobs.list().items] == [own], "nothing was stored"
    child = bolt.enqueue(NewJob(job_type="t", parent_id=own))
    assert bolt.jobs.get(child.id).parent_id == own


def test_a_large_call_is_looked_at_before_any_of_it_is_written(client):
    bolt = client.for_org("bolt")
    parent = client.enqueue(NewJob(job_type="t", org_id="acme")).id
    jobs = [NewJob(job_type="t") for _ in range(2600)]
    with pytest.raises(NotAllowed):
        bolt.enqueue_many([*jobs, NewJob(job_type="t", parent_id=parent)])
    assert bolt.jobs.count().live == {}
    bolt.enqueue_many(jobs)
    assert sum(bolt.jobs.count().live["q:default"].values()) == 2600


def test_a_job_of_all_is_not_shown_to_an_org(client):
    made = client.enqueue(NewJob(job_type="t")).id
    with pytest.raises(JobNotFound):
        client.for_org("acme").jobs.get(made)
    assert client.for_org("acme").jobs.list().items == []
    assert client.jobs.get(made).org_id is None


def test_a_filter_for_another_org_finds_nothing(client):
    client.enqueue(NewJob(job_type="t", org_id="acme"))
    assert client.for_org("bolt").jobs.list(JobFilter(org_id="acme")).items == []
    assert client.for_org("bolt").jobs.count().live == {}
    assert len(client.for_org("acme").jobs.list().items) == 1


@pytest.mark.parametrize("org", [None, "", ["acme"], 7, "a\0b", "x" * 300])
def test_what_is_no_org_is_refused_and_none_never_means_all(client, org):
    # A17
    with pytest.raises(InvalidJob, match="org_id"):
        client.for_org(org)


@pytest.mark.parametrize("org", [["acme"], 7])
def test_a_listing_is_not_narrowed_by_what_is_no_org(client, org):
    with pytest.raises(InvalidSetting, match="org_id"):
        client.for_org("acme").jobs.list(JobFilter(org_id=org))


def test_an_empty_org_names_no_org(client):
    client.enqueue(NewJob(job_type="t"))
    client.enqueue(NewJob(job_type="t", org_id="acme"))
    assert client.jobs.list(JobFilter(org_id="")).items == []


def test_a_client_of_one_org_gives_none_of_another(client):
    acme = client.for_org("acme")
    assert acme.for_org("acme").org_id == acme.org_id == "acme"
    assert client.org_id is None
    with pytest.raises(NotAllowed, match="confined to org 'acme'"):
        acme.for_org("bolt")
    with pytest.raises(AttributeError):
        acme.org_id = None


def test_without_tenancy_there_is_no_org_to_be_confined_to(tmp_path):
    # R14
    with (
        Client(f"sqlite:///{tmp_path}/onward.db", policies=Policies.of(tenancy="off")) as client,
        pytest.raises(InvalidSetting, match='tenancy="off"'),
    ):
        client.for_org("acme")


def test_a_client_of_one_org_may_pause_that_org_and_nothing_else(client):
    acme = client.for_org("acme")
    client.orgs.pause("bolt", reason="not paid")
    client.queues.pause("q:default", reason="for all")
    assert acme.orgs.pause("acme", reason="holiday")
    assert {(pause.scope, pause.name) for pause in acme.gate.status().pauses} == {
        ("queue", "q:default"), ("org", "acme"),
    }  # fmt: skip
    assert acme.orgs.resume("acme")
    for refused in (
        lambda: acme.orgs.resume("bolt"),
        lambda: acme.queues.resume("q:default"),
        lambda: acme.job_types.pause("acme", reason="r"),
        acme.gate.open,
    ):
        with pytest.raises(NotAllowed):
            refused()
    assert len(client.gate.status().pauses) == 2


def test_closing_a_client_of_one_org_leaves_the_database_open(client):
    with client.for_org("acme") as acme:
        acme.enqueue(NewJob(job_type="t"))
    assert len(client.jobs.list().items) == 1


def test_bound_to_a_transaction_it_stays_confined_whichever_came_first(client):
    theirs = client.enqueue(NewJob(job_type="t", org_id="acme")).id
    with closing(connected(client)) as tx:
        for bound in (client.for_org("bolt").within(tx), client.within(tx).for_org("bolt")):
            assert bound.org_id == "bolt"
            with pytest.raises(JobNotFound):
                bound.jobs.cancel(theirs, reason="mine now")
            assert bound.jobs.get(bound.enqueue(NewJob(job_type="t")).id).org_id == "bolt"
        tx.rollback()
    assert [job.id for job in client.jobs.list().items] == [theirs]


@pytest.mark.parametrize(
    "bind",
    [
        lambda client: client.at(datetime.now(UTC)),
        lambda client: client.acting_as("user:42"),
        lambda client: client.for_project("p"),
    ],
    ids=["at", "acting_as", "for_project"],
)
def test_bound_to_a_time_an_actor_or_a_project_it_stays_confined_whichever_came_first(client, bind):
    # A17
    theirs = client.enqueue(NewJob(job_type="t", org_id="acme")).id
    for bound in (bind(client.for_org("bolt")), bind(client).for_org("bolt")):
        assert bound.org_id == "bolt"
        with pytest.raises(JobNotFound):
            bound.jobs.cancel(theirs, reason="mine now")
        with pytest.raises(NotAllowed, match="confined to org 'bolt'"):
            bound.for_org("acme")
        assert bound.jobs.get(bound.enqueue(NewJob(job_type="t")).id).org_id == "bolt"
    assert client.jobs.get(theirs).state == JobState.QUEUED


def test_in_the_audit_an_act_of_a_confined_client_names_its_org(client):
    bolt = client.for_org("bolt")
    made = bolt.enqueue(NewJob(job_type="t")).id
    bolt.jobs.cancel(made, reason="r")
    bolt.orgs.pause("bolt", reason="r")
    named = rows(client, "SELECT DISTINCT org_id FROM {prefix}audit")
    assert named == [("bolt",)]


async def test_an_async_client_is_confined_alike(app, anyio_backend):
    try:
        acme, bolt = app.aclient.for_org("acme"), app.aclient.for_org("bolt")
        made = await acme.enqueue(NewJob(job_type="t"))
        assert (await acme.jobs.get(made.id)).org_id == "acme"
        with pytest.raises(JobNotFound):
            await bolt.jobs.get(made.id)
        with pytest.raises(NotAllowed):
            await bolt.worker.promote()
    finally:
        await app.aclose()


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda acme: acme.keys.prune(), "this operation concerns all orgs"),
        (lambda acme: acme.audit.verify(), "this operation concerns all orgs"),
        (
            lambda acme: acme.queues.pause("q", reason="r"),
            "pausing or resuming queue 'q' concerns more than one org",
        ),
        (
            lambda acme: acme.gate.close(reason="r"),
            "pausing or resuming the gate concerns more than one org",
        ),
    ],
)
def test_what_is_refused_is_told_without_the_names_of_statements(client, ask, what):
    with pytest.raises(NotAllowed) as told:
        ask(client.for_org("acme"))
    confined = "this client is confined to org 'acme'; use a client of all orgs, outside"
    assert str(told.value) == f"{what}, and {confined} of a handler and of app.context(org_id=…)"
