"""What a job is: its columns are its fields, and a stored row is read back as it was."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.jobs.job import COLUMNS, ENDED, WAITING, Job, JobState, instant, micros
from onward.core.work.error_record import ErrorRecord
from onward.core.work.progress import Progress

ROW: dict[str, Any] = {
    "id": "019b7c2e-9f00-7000-8000-000000000001",
    "org_id": "org-1",
    "project_id": None,
    "job_type": "invoice.issue",
    "queue": "q:default",
    "category": "default",
    "state": "running",
    "priority": 5,
    "run_at": 1_767_322_445_000_001,
    "attempt": 1,
    "max_attempts": 5,
    "lease": 3,
    "worker_id": "w1",
    "key": "k",
    "subject": "booking:42",
    "payload": '{"booking":42,"naïve":[1,null,true,2.5]}',
    "progress": '{"done":3,"total":8,"note":"page 4","at":1767322445000000}',
    "cost_micros": 12,
    "actor_type": "user",
    "actor_id": "7",
    "request_id": "r",
    "correlation_id": "c",
    "traceparent": None,
    "parent_id": None,
    "batch_id": None,
    "tags": '["a","b"]',
    "cancel_requested_at": None,
    "rerun_requested": 0,
    "deadline": 1_767_322_446_000_000,
    "timeout_micros": 30_000_000,
    "waits": 0,
    "crashes": 0,
    "error": '{"error_class":"TimeoutError"}',
    "created_at": 1_767_322_444_000_000,
    "started_at": 1_767_322_445_500_000,
    "result": None,
    "outcome": None,
    "ended_at": None,
}


PROGRESS = Progress(3, 8, "page 4", datetime(2026, 1, 2, 2, 54, 5, tzinfo=UTC))


def job(**changes: Any) -> Job:
    return Job.from_row(list((ROW | changes).values()))


def test_columns_and_fields_agree_in_order():
    assert list(COLUMNS) == list(Job.__struct_fields__)
    assert list(ROW) == list(COLUMNS)


def test_a_row_is_read_as_it_was_stored():
    read = job()
    assert read.state is JobState.RUNNING
    assert read.run_at == datetime(2026, 1, 2, 2, 54, 5, 1, tzinfo=UTC)
    assert read.payload == {"booking": 42, "naïve": [1, None, True, 2.5]}
    assert (read.progress, read.tags, read.error) == (PROGRESS, ["a", "b"], ErrorRecord("TimeoutError"))
    assert read.rerun_requested is False
    assert job(rerun_requested=1).rerun_requested is True
    same = [name for name, kind in COLUMNS.items() if kind in {"id", "text", "int"}]
    assert {name: getattr(read, name) for name in same} == {name: ROW[name] for name in same}


@pytest.mark.parametrize("times", [1, 2, 20])
def test_rows_that_are_read_together_are_read_as_each_by_itself(times):
    changes: list[dict[str, Any]] = [
        {},
        {"state": "dead", "ended_at": ROW["run_at"], "result": "0", "tags": None, "started_at": None},
        {"run_at": ROW["created_at"], "payload": "{}", "deadline": None, "rerun_requested": 1},
    ]
    rows = [list((ROW | change).values()) for change in changes] * times
    rows += [list((ROW | {"run_at": number, "started_at": number}).values()) for number in range(times)]
    assert Job.from_rows(rows) == [Job.from_row(row) for row in rows]
    assert Job.from_rows([]) == []


@pytest.mark.parametrize("count", [2, 20])
def test_jobs_of_equal_rows_share_nothing_that_can_be_changed(count):
    one, other, *_ = Job.from_rows([list(ROW.values())] * count)
    assert one == other
    mutable = [name for name, kind in COLUMNS.items() if kind == "json"]
    shared = [name for name in mutable if getattr(one, name) is getattr(other, name)]
    assert {type(getattr(one, name)) for name in shared} <= {Progress, type(None)}


def test_what_is_null_stays_none():
    optional = {
        name: None
        for name, field in zip(Job.__struct_fields__, msgspec.structs.fields(Job), strict=True)
        if type(None) in getattr(field.type, "__args__", ()) or field.type is Any
    }
    read = job(**optional)
    assert {getattr(read, name) for name in optional} == {None}


@pytest.mark.parametrize("stored", ["null", "0", '""', "[]", "false"])
def test_a_falsy_result_is_not_the_absence_of_one(stored):
    assert job(result=stored).result == msgspec.json.decode(stored)


def test_a_scheduled_job_retries_once_it_has_run():  # R1
    assert job(state="scheduled", attempt=1).retrying
    assert not job(state="scheduled", attempt=0).retrying
    assert not job(state="queued", attempt=1).retrying


def test_only_a_success_is_skipped():  # R1
    assert job(state="succeeded", outcome="skipped").skipped
    assert not job(state="succeeded", outcome="succeeded").skipped
    assert not job(state="dead", outcome="skipped").skipped


def test_a_job_waits_runs_or_has_ended():  # R1
    assert not WAITING & ENDED
    assert WAITING | ENDED | {JobState.RUNNING} == set(JobState)


# The first day begins in the year 0 of UTC where clocks are ahead of it.
@given(
    st.datetimes(
        datetime(1, 1, 2),  # noqa: DTZ001 - the zone is drawn
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
    )
)
def test_an_instant_comes_back_to_the_microsecond(moment):
    assert instant(micros(moment)) == moment
