"""Progress is stored under the lease, stays with the end of a job, and begins anew with each attempt."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from onward import (
    Cancelled,
    Client,
    Failed,
    InvalidSetting,
    JobState,
    NewJob,
    Outcome,
    Released,
    Snooze,
    Succeeded,
)
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.progress import JobReport, Report
from onward.results import Job, Lost, Progress

NOW = datetime(2030, 1, 2, tzinfo=UTC)
ERROR = {"error_class": "E", "message": "boom"}

on_postgres = pytest.mark.parametrize("client", ["postgres"], indirect=True)


def claimed(client: Client, count: int = 1, **fields) -> list[Job]:
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type="t", **fields) for _ in range(count)])
    return client.worker.claim("q:default", count, worker_id="w")


def end(client: Client, job: Job, outcome: Outcome, report: Report | None) -> bool:
    """Write the end of a run with its last report, as a worker does; whether the lease held."""
    settled = DEFAULT_POLICIES.end_of(job, outcome, 0.5)
    return job.id in client.worker.write([replace(settled, progress=report)]).held


def test_the_newest_report_of_each_job_is_stored_with_the_time_of_the_database(client):
    one, other, third = claimed(client, 3)
    at = client.at(NOW)
    assert (
        at.worker.store_progress(
            [JobReport.of(one, Report(1, 4, "page 1")), JobReport.of(other, Report(2.5))]
        )
        == frozenset()
    )
    assert client.jobs.get(one.id).progress == Progress(1, 4, "page 1", NOW)
    assert client.jobs.get(other.id).progress == Progress(2.5, None, None, NOW)
    assert client.jobs.get(third.id).progress is None
    client.at(NOW + timedelta(seconds=1)).worker.store_progress([JobReport.of(one, Report(2, 4))])
    assert client.jobs.get(one.id).progress == Progress(2, 4, None, NOW + timedelta(seconds=1))
    assert [job.progress is None for job in client.jobs.list()].count(True) == 1


def test_nothing_is_asked_of_the_database_for_no_reports(client, monkeypatch):
    monkeypatch.delattr(type(client.store), "run")
    assert client.worker.store_progress([]) == frozenset()


@pytest.mark.parametrize("report", [Report(float("nan")), Report(1, -1), Report(1, None, "x" * 201)])
def test_a_report_that_could_not_be_read_again_is_refused(client, report):
    [job] = claimed(client)
    with pytest.raises(InvalidSetting):
        client.worker.store_progress([JobReport.of(job, report)])
    assert client.jobs.get(job.id).progress is None


def test_a_stale_lease_changes_nothing(client):
    [job] = claimed(client)
    client.worker.store_progress([JobReport.of(job, Report(1, 4))])
    client.worker.release([job.held_lease])
    assert client.worker.store_progress([JobReport.of(job, Report(2, 4))]) == frozenset()
    assert client.jobs.get(job.id).progress is None
    [again] = client.worker.claim("q:default", worker_id="w")
    client.worker.store_progress([JobReport.of(job, Report(3, 4)), JobReport.of(again, Report(1, 9))])
    assert client.jobs.get(job.id).progress.total == 9
    assert not end(client, job, Succeeded(), Report(4, 4))
    found = client.jobs.get(job.id)
    assert (found.state, found.progress.total) == (JobState.RUNNING, 9)
    assert end(client, again, Succeeded(), Report(9, 9))
    client.worker.store_progress([JobReport.of(again, Report(1, 9))])
    assert client.jobs.get(job.id).progress.done == 9


@pytest.mark.parametrize("outcome", [Succeeded(), Failed(ERROR, retryable=False), Cancelled("enough")])
@pytest.mark.parametrize("report", [None, Report(3, 4, "last")])
def test_an_end_keeps_the_last_report(client, outcome, report):
    [job] = claimed(client)
    client.at(NOW).worker.store_progress([JobReport.of(job, Report(1, 4))])
    assert end(client.at(NOW + timedelta(seconds=1)), job, outcome, report)
    found = client.jobs.get(job.id)
    assert found.ended_at is not None
    last = Progress(3, 4, "last", NOW + timedelta(seconds=1))
    assert found.progress == (Progress(1, 4, None, NOW) if report is None else last)


def test_ends_with_and_without_a_report_are_written_together(client):
    jobs = claimed(client, 3)
    reports = [Report(1, 1), None, Report(2, 2)]
    ends = [
        replace(DEFAULT_POLICIES.end_of(job, Succeeded(), 0.5), progress=report)
        for job, report in zip(jobs, reports, strict=True)
    ]
    assert client.worker.write(ends).held == {job.id for job in jobs}
    found = [client.jobs.get(job.id) for job in jobs]
    assert [job.state for job in found] == [JobState.SUCCEEDED] * 3
    assert [job.progress and job.progress.done for job in found] == [1, None, 2]


@pytest.mark.parametrize("outcome", [Failed(ERROR), Snooze(0), Released(), Lost()])
def test_the_next_attempt_begins_without_progress(client, outcome):
    [job] = claimed(client)
    client.worker.store_progress([JobReport.of(job, Report(1, 4))])
    assert end(client, job, outcome, Report(3, 4))
    found = client.jobs.get(job.id)
    assert (found.ended_at, found.progress) == (None, None)


def test_a_job_that_can_not_go_back_because_it_was_cancelled_keeps_its_last_report(client):
    [job] = claimed(client)
    client.jobs.cancel(job.id, reason="enough")
    assert end(client, job, Released(), Report(3, 4))
    found = client.jobs.get(job.id)
    assert (found.state, found.progress.done) == (JobState.CANCELLED, 3)


def test_a_rescued_job_begins_without_progress(client):
    [job] = claimed(client)
    client.worker.store_progress([JobReport.of(job, Report(1, 4))])
    client.worker.rescue_worker("w")
    assert client.jobs.get(job.id).progress is None


def test_a_reset_and_a_replay_begin_without_progress(client):
    [job] = claimed(client, key="k")
    assert end(client, job, Succeeded(), Report(4, 4))
    client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset"))
    found = client.jobs.get(job.id)
    assert (found.state, found.progress) == (JobState.QUEUED, None)
    [again] = client.worker.claim("q:default", worker_id="w")
    assert end(client, again, Failed(ERROR, retryable=False), Report(2, 4))
    assert client.jobs.get(job.id).progress.done == 2
    client.dead.replay([job.id], reason="mended")
    found = client.jobs.get(job.id)
    assert (found.state, found.progress) == (JobState.QUEUED, None)


def test_a_job_that_is_reset_while_it_runs_begins_without_progress(client):
    [job] = claimed(client, key="k")
    client.worker.store_progress([JobReport.of(job, Report(1, 4))])
    client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset"))
    assert end(client, job, Succeeded(), Report(4, 4))
    found = client.jobs.get(job.id)
    assert (found.state, found.progress) == (JobState.QUEUED, None)


@on_postgres
def test_a_row_that_a_transaction_holds_is_left_out_and_said_so(client):
    held, other = claimed(client, 2)
    lock = f"SELECT FROM {client.store.prefix}live WHERE id = %s FOR UPDATE"
    with closing(psycopg.connect(client.store.url)) as connection:
        connection.execute(lock, (held.id,))
        left = client.worker.store_progress(
            [JobReport.of(held, Report(1, 4)), JobReport.of(other, Report(2, 4))]
        )
        assert left == {held.id}
        assert client.jobs.get(other.id).progress.done == 2
        assert client.jobs.get(held.id).progress is None
        connection.rollback()
    assert client.worker.store_progress([JobReport.of(held, Report(1, 4))]) == frozenset()
    assert client.jobs.get(held.id).progress.done == 1
