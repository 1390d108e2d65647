"""Many jobs cancelled by one request: of a filter, a subject, a batch and a flow, each request audited."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward import (
    AuditFilter,
    Client,
    InvalidJob,
    InvalidSetting,
    JobFilter,
    JobNotFound,
    JobState,
    NewJob,
    Released,
)
from onward.errors import BatchClosed, BatchNotFound
from onward.operations.jobs import cancel
from onward.results import Bulk
from tests.flows.batches.crew import Crew, new

ADA = "user:ada"
WHY: dict[str, Any] = {"reason": "stop it"}


@pytest.fixture
def crew(client: Client) -> Crew:
    """A worker, once for each database."""
    return Crew(client)


def requests(client: Client) -> list[Any]:
    """Read what was asked for, oldest first."""
    return list(client.audit.list(AuditFilter(event="jobs.cancel_requested")))[::-1]


def states(client: Client, *ids: str) -> list[str]:
    found = client.jobs.get_many(list(ids))
    return [found[job_id].state.value for job_id in ids]


def sizes_of_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each transaction cancels from now on."""
    sizes: list[int] = []
    stop = cancel.stop

    def counted(ids: Any, **options: Any) -> Any:
        sizes.append(len(ids))
        return stop(ids, **options)

    monkeypatch.setattr(cancel, "stop", counted)
    return sizes


def test_waiting_jobs_are_cancelled_and_running_ones_asked(crew):
    # S4-69
    client = crew.client
    running = client.enqueue(new(tags=["x"])).id
    crew.claim()
    later = client.enqueue(new(delay=timedelta(hours=1))).id
    ready, other = client.enqueue(new()).id, client.enqueue(new("other")).id
    answer = client.acting_as(ADA).jobs.cancel_where(JobFilter(job_type="work"), **WHY)
    assert answer == Bulk(found=3, done=3, pending=1)
    assert states(client, running, later, ready, other) == ["running", "cancelled", "cancelled", "queued"]
    assert client.jobs.get(running).cancel_requested_at is not None
    # One that runs and gives way ends as cancelled; one that could not hear of it may still succeed.
    client.worker.finish([crew.held[running].end_with(Released())])
    assert states(client, running) == ["cancelled"]


def test_a_request_is_one_line_of_the_audit_besides_those_of_the_jobs(crew):
    # S4-70
    client = crew.client
    running = client.enqueue(new()).id
    crew.claim()
    waiting = client.enqueue(new()).id
    client.acting_as(ADA).jobs.cancel_where(JobFilter(job_type="work", queue="q:default"), **WHY)
    [line] = requests(client)
    assert (line.actor_type, line.actor_id, line.job_type) == ("user", "ada", "work")
    assert line.detail == {
        "where": {"job_type": "work", "queue": "q:default"},
        "jobs": 2,
        "reason": "stop it",
    }
    for job_id, event in ((running, "job.cancel_requested"), (waiting, "job.cancelled")):
        told = client.jobs.events(job_id)[-1]
        assert (told.event, told.actor_id, told.detail) == (event, "ada", {"reason": "stop it"})


def test_a_request_that_finds_nothing_is_audited_too(client):
    # S4-70
    assert client.acting_as(ADA).jobs.cancel_subject("booking:1", **WHY) == Bulk()
    [line] = requests(client)
    assert line.detail == {"where": {"subject": "booking:1"}, "jobs": 0, "reason": "stop it"}


def test_a_dry_run_counts_and_changes_nothing(client):
    ids = [client.enqueue(new()).id for _ in range(3)]
    assert client.acting_as(ADA).jobs.cancel_where(JobFilter(state="queued"), dry_run=True, **WHY).found == 3
    assert set(states(client, *ids)) == {"queued"}
    assert requests(client) == []


def test_many_are_cancelled_page_by_page_up_to_a_limit(client, monkeypatch):
    monkeypatch.setattr(cancel, "AT_ONCE", 2)
    ids = [one.id for one in client.enqueue_many([new() for _ in range(7)])]
    pages = sizes_of_pages(monkeypatch)
    answer = client.acting_as(ADA).jobs.cancel_where(JobFilter(job_type="work"), limit=5, **WHY)
    assert pages == [2, 2, 1]
    assert (answer.found, answer.done) == (5, 5)
    assert set(states(client, *ids[:5])) == {"cancelled"}, "oldest first"
    rest = client.acting_as(ADA).jobs.cancel_where(
        JobFilter(job_type="work"), cursor=answer.next_cursor, **WHY
    )
    assert rest == Bulk(found=2, done=2)
    assert [line.detail["jobs"] for line in requests(client)] == [5, 2]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (JobFilter(), "would match every job"),
        (JobFilter(state="dead"), "'dead' is of jobs that have ended"),
        (JobFilter(state="skipped"), "have ended"),
        (JobFilter(queue="q:deadletter"), "have ended"),
        ({"job_type": "work"}, "give a JobFilter"),
    ],
)
def test_a_filter_that_would_mean_too_much_or_nothing_is_refused(client, where, said):
    client.enqueue(new())
    with pytest.raises(InvalidSetting, match=said):
        client.acting_as(ADA).jobs.cancel_where(where, **WHY)
    assert client.jobs.list().items[0].state == JobState.QUEUED


@pytest.mark.parametrize("reason", ["", None])
def test_a_request_needs_a_reason(client, reason):
    job_id = client.enqueue(new()).id
    batch_id = client.batches.open()
    for ask in (
        lambda: client.jobs.cancel_where(JobFilter(job_type="work"), reason=reason),
        lambda: client.jobs.cancel_subject("s", reason=reason),
        lambda: client.batches.cancel(batch_id, reason=reason),
        lambda: client.flows.cancel(job_id, reason=reason),
    ):
        with pytest.raises(InvalidJob, match="reason"):
            ask()
    assert client.batches.get(batch_id).cancelled_at is None


def test_a_secret_in_a_reason_is_not_kept(client):
    client.enqueue(new())
    client.jobs.cancel_where(JobFilter(job_type="work"), reason="key sk_live_4eC39HqLyjWDarjtT1zdp7dc leaked")
    assert "4eC39HqLyjWDarjtT1zdp7dc" not in str(requests(client))


def test_the_jobs_of_a_subject_are_cancelled(client):
    mine = [client.enqueue(new(subject="booking:1", delay=timedelta(hours=at + 1))).id for at in range(2)]
    other = client.enqueue(new(subject="booking:2")).id
    assert client.acting_as(ADA).jobs.cancel_subject("booking:1", **WHY).done == 2
    assert states(client, *mine, other) == ["cancelled", "cancelled", "queued"]


def test_a_batch_is_cancelled_and_ends_when_its_running_jobs_have_given_way(crew):
    client = crew.client
    batch_id, [running] = crew.batch(1)
    crew.claim()
    added = client.enqueue(new(batch_id=batch_id, parent_id=running)).id
    assert client.acting_as(ADA).batches.cancel(batch_id, **WHY) == Bulk(found=2, done=2, pending=1)
    assert states(client, running, added) == ["running", "cancelled"]
    with pytest.raises(BatchClosed, match="was cancelled"):
        client.enqueue(new(batch_id=batch_id, parent_id=running))
    assert crew.called() == []
    client.worker.finish([crew.held[running].end_with(Released())])
    assert crew.counts(batch_id) == (0, 0, 0, 0, 2)
    assert crew.called() == ["on_complete", "on_failure"]
    [line] = requests(client)
    assert line.detail == {"where": {"batch": batch_id}, "jobs": 2, "reason": "stop it"}


def test_an_open_batch_is_closed_when_it_is_cancelled(crew):
    client = crew.client
    batch_id = client.batches.open(on_failure=new("on_failure", queue="q:after"))
    client.enqueue(new(batch_id=batch_id))
    client.acting_as(ADA).batches.cancel(batch_id, **WHY)
    batch = crew.read(batch_id)
    assert (batch.cancelled, batch.open) == (1, False)
    assert batch.ended_at is not None
    assert crew.called() == ["on_failure"]


def test_a_flow_is_cancelled_with_all_that_waits_and_all_that_it_enqueued(crew):
    client = crew.client
    root = client.enqueue(new()).id
    crew.claim()
    child = client.enqueue(new(parent_id=root)).id
    crew.end(child)
    grandchild = client.enqueue(new(parent_id=child)).id
    waits = client.enqueue(new(after=(root,))).id
    either = client.enqueue(new(after=(waits,), after_needs="ended")).id
    stranger = client.enqueue(new()).id
    assert client.acting_as(ADA).flows.cancel(root, dry_run=True, **WHY).found == 4
    answer = client.acting_as(ADA).flows.cancel(root, **WHY)
    assert answer == Bulk(found=4, done=4, pending=1)
    assert states(client, root, grandchild, waits, either, stranger) == [
        "running", "cancelled", "cancelled", "cancelled", "queued",
    ]  # fmt: skip
    [line] = requests(client)
    assert (line.job_id, line.detail["where"], line.detail["jobs"]) == (root, {"flow": root}, 4)
    assert client.acting_as(ADA).flows.cancel(root, **WHY) == Bulk(), "who was asked is not asked again"


def test_a_large_flow_is_cancelled_in_pages(client, monkeypatch):
    monkeypatch.setattr(cancel, "AT_ONCE", 3)
    root = client.enqueue(new()).id
    ids = [one.id for one in client.enqueue_many([new(parent_id=root) for _ in range(7)])]
    pages = sizes_of_pages(monkeypatch)
    client.acting_as(ADA).flows.cancel(root, **WHY)
    assert pages == [3, 3, 2]
    assert set(states(client, root, *ids)) == {"cancelled"}


def test_what_is_not_there_can_not_be_cancelled(client):
    nobody = "01890000-0000-7000-8000-000000000000"
    with pytest.raises(JobNotFound, match=nobody):
        client.acting_as(ADA).flows.cancel(nobody, **WHY)
    with pytest.raises(BatchNotFound, match=nobody):
        client.acting_as(ADA).batches.cancel(nobody, **WHY)
    assert requests(client) == []


def test_a_client_of_one_org_reaches_no_other(client):
    about: dict[str, Any] = {"subject": "booking:1", "job_type": "work"}
    own = client.for_org("bolt").enqueue(NewJob(**about)).id
    theirs = client.for_org("acme").enqueue(NewJob(**about)).id
    confined = client.for_org("bolt").acting_as(ADA)
    assert confined.jobs.cancel_subject("booking:1", **WHY).done == 1
    assert confined.jobs.cancel_where(JobFilter(job_type="work"), **WHY).found == 0
    assert confined.jobs.cancel_where(JobFilter(org_id="acme"), **WHY).found == 0
    with pytest.raises(JobNotFound):
        confined.flows.cancel(theirs, **WHY)
    assert states(client, own, theirs) == ["cancelled", "queued"]
    assert {line.org_id for line in requests(client)} == {"bolt"}
