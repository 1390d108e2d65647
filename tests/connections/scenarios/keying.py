"""A held key: what an enqueue does to its job, and what the ledger says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from onward.core.bulk import Bulk
from onward.core.jobs.ids import JobId
from onward.core.page import make_cursor
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.lifecycle import Failed, Succeeded
from onward.operations.jobs import inspect, key_conflicts, subjects
from tests.connections.scenarios.steps import HOUR, NOW, Go, end, events, look, put, register, take

__all__ = ["SCENARIOS"]


def add(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {"é": old["é"] + new["é"]}


def the_job_that_holds_a_key_is_changed(go: Go) -> list[JobId]:
    register(go)
    job_id = put(go, key="ké", payload={"é": 1}, run_at=NOW + HOUR).id
    answer = put(go, key="ké", payload={"é": 2}, on_conflict="coalesce", merge=add)
    assert (answer.id, answer.change, answer.state) == (job_id, "coalesced", "scheduled")
    answer = put(go, key="ké", payload={"é": 5}, on_conflict="replace", priority=2)
    assert (answer.change, look(go, job_id).payload, look(go, job_id).priority) == ("replaced", {"é": 5}, 2)
    [job] = take(go)
    assert put(go, key="ké", payload={"é": 7}, on_conflict="reset").change == "rerun_requested"
    assert put(go, key="ké", payload={"é": 1}, on_conflict="coalesce", merge=add).change == "rerun_requested"
    assert go(key_conflicts.get_key("ké")).status == "running"
    assert end(go, job, Failed("é", retryable=False)).held == {job_id}
    again = look(go, job_id)
    assert (again.state, again.payload, again.attempt) == ("queued", {"é": 8}, 0)
    end(go, take(go)[0], Succeeded({"sent": "é"}))
    assert go(key_conflicts.get_key("ké")).result_ref == f"job:{job_id}"
    assert put(go, key="ké", on_conflict="reset", reset_from=frozenset({"dead"})).change is None
    assert put(go, key="ké", payload={"é": 9}, on_conflict="reset").change == "reset"
    assert [run.lease for run in go(inspect.attempts_of(job_id))] == [1, 3]
    assert events(go, job_id) == [
        "job.enqueued", "job.coalesced", "job.replaced", "job.started", "job.rerun_requested",
        "job.rerun_requested", "job.failed", "job.deadlettered", "job.reset", "job.started", "job.succeeded",
        "job.reset",
    ]  # fmt: skip
    return [job_id]


def keys_are_listed_forgotten_and_pruned(go: Go) -> list[JobId]:
    register(go)
    short, kept = put(go, key="short", unique="active").id, put(go, key="ké", org_id="é").id
    for job in take(go):
        end(go, job, Succeeded())
    assert [key.key for key in go(key_conflicts.list_keys())] == ["short", "ké"]
    assert go(key_conflicts.prune(), at=NOW + timedelta(seconds=1)) == Bulk(
        found=1, done=1, next_cursor=make_cursor("keys.prune", "é", "", "ké")
    )
    assert go(key_conflicts.forget("ké", org_id="é", reason="é")).changed
    assert go(key_conflicts.list_keys()).items == []
    return [short, kept]


def the_jobs_of_a_subject_go_with_it(go: Go) -> list[JobId]:
    register(go)
    gone = put(go, key="for é", subject="booking:é").id
    end(go, take(go)[0], Succeeded())
    kept = put(go, subject="booking:other").id
    dropped = go(subjects.drop_subject("booking:é", DEFAULT_POLICIES, policy="delete"))
    assert dropped.deleted == {gone}
    assert go(inspect.get_many([gone])) == {}
    assert events(go, gone)[-1] == "job.deleted"
    return [kept]


SCENARIOS = [
    the_job_that_holds_a_key_is_changed,
    keys_are_listed_forgotten_and_pruned,
    the_jobs_of_a_subject_go_with_it,
]
