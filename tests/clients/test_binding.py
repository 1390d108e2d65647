"""What is bound to a client holds for each of its calls: time, actor, org, project and transaction."""

from datetime import UTC, datetime, timedelta

import pytest

from onward import AuditFilter, Client, InvalidJob, InvalidSetting, JobNotFound, NewJob, NotAllowed, Onward
from onward.core.jobs.actor import Actor

T = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def actors(client: Client, event: str) -> list[tuple[str | None, str | None]]:
    records = client.audit.list(AuditFilter(event=event))
    return [(record.actor_type, record.actor_id) for record in records]


def test_a_client_at_another_time_writes_and_reads_by_it(client):
    job_id = client.at(T).enqueue(NewJob(job_type="t", delay=HOUR)).id
    assert client.jobs.get(job_id).created_at == T
    assert client.jobs.get(job_id).run_at == T + HOUR
    assert client.at(T + HOUR).worker.ready_queues().next_due == T + HOUR
    assert client.at(T).at(None).worker.ready_queues().now < T


def test_a_time_without_a_zone_is_refused(client):
    with pytest.raises(InvalidSetting, match="instant"):
        client.at(datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake


def test_an_act_is_audited_with_the_bound_actor(client):
    ada = client.acting_as("user:ada")
    ada.queues.pause("q", reason="r")
    ada.acting_as(("api_key", "k")).queues.resume("q")
    assert actors(client, "queue.paused") == [("user", "ada")]
    assert actors(client, "queue.resumed") == [("api_key", "k")]
    client.gate.close(reason="r")
    assert actors(client, "gate.closed") == [(None, None)]


def test_what_is_enqueued_belongs_to_the_bound_actor_unless_it_names_another(client):
    ada = client.acting_as(Actor("user", "ada"))
    mine, other = ada.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", actor_type="system")])
    [alone] = [ada.enqueue(NewJob(job_type="t"))]
    batch = ada.batches.get(ada.batches.open())
    assert [client.jobs.get(job.id).actor_type for job in (mine, other, alone)] == ["user", "system", "user"]
    assert client.jobs.get(other.id).actor_id is None
    assert (batch.actor_type, batch.actor_id) == ("user", "ada")
    assert ("user", "ada") in actors(client, "job.enqueued")


def test_the_bound_actor_comes_before_that_of_the_context(app: Onward):
    with app.context(actor="user:context"):
        app.client.acting_as("user:bound").queues.pause("q", reason="r")
        app.client.queues.pause("p", reason="r")
    assert actors(app.client, "queue.paused") == [("user", "context"), ("user", "bound")]


def test_a_reading_of_the_audit_is_not_narrowed_to_the_acting_actor(app: Onward):
    app.client.queues.pause("q", reason="r")
    with app.context(actor="user:context"):
        assert actors(app.client, "queue.paused") == [(None, None)]
    assert actors(app.client.acting_as("user:ada"), "queue.paused") == [(None, None)]


@pytest.mark.parametrize("actor", ["ada", "user:", ":ada", 7, ("user", 7), ("user",), None])
def test_what_is_no_actor_is_refused(client, actor):
    with pytest.raises(InvalidSetting, match="give 'type:id'"):
        client.acting_as(actor)


def test_an_actor_that_is_too_long_is_refused(client):
    with pytest.raises(InvalidJob, match="actor_id"):
        client.acting_as("user:" + "x" * 256)


def test_what_is_enqueued_belongs_to_the_bound_project_and_to_no_other(client):
    bound = client.for_project("p1")
    assert client.jobs.get(bound.enqueue(NewJob(job_type="t")).id).project_id == "p1"
    assert client.jobs.get(bound.enqueue(NewJob(job_type="t", project_id="p1")).id).project_id == "p1"
    with pytest.raises(NotAllowed, match="confined to project 'p1'"):
        bound.enqueue(NewJob(job_type="t", project_id="p2"))
    with pytest.raises(NotAllowed, match="confined to project 'p1'"):
        bound.for_project("p2")


def test_bindings_add_up_in_any_order_and_leave_the_first_client_as_it_was(client):
    one = client.for_org("acme").for_project("p").acting_as("user:ada").at(T)
    other = client.at(T).acting_as("user:ada").for_project("p").for_org("acme")
    for bound in (one, other):
        job = client.jobs.get(bound.enqueue(NewJob(job_type="t")).id)
        assert (job.org_id, job.project_id, job.actor_id, job.created_at) == ("acme", "p", "ada", T)
    assert client.jobs.get(client.enqueue(NewJob(job_type="t")).id).org_id is None
    elsewhere = client.enqueue(NewJob(job_type="t", org_id="other")).id
    with pytest.raises(JobNotFound):
        one.jobs.get(elsewhere)
