"""Dead jobs are replayed, discarded and fixed, each death once."""

from __future__ import annotations

from typing import Any

from onward.core.bulk import Bulk
from onward.core.failures.dead_letter import DeadFilter, Edit
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.lifecycle import Failed
from onward.operations.failures import dead_letters
from onward.operations.jobs import inspect, listing
from tests.connections.scenarios.steps import Go, end, events, ids, look, put, register, take

__all__ = ["SCENARIOS"]

BY: dict[str, Any] = {"reason": "é", "policies": DEFAULT_POLICIES}


def each_death_is_resolved_once(go: Go) -> list[JobId]:
    register(go)
    again, thrown, broken = (put(go, key=f"é{n}", payload={"é": n}).id for n in range(3))
    for job in take(go):
        assert end(go, job, Failed({"error_class": "É", "hint": "é"}, retryable=False)).held == {job.id}
    page = go(dead_letters.list_letters(DeadFilter(), limit=2))
    assert [letter.job.id for letter in page] == [broken, thrown]
    rest = go(dead_letters.list_letters(DeadFilter(), limit=2, cursor=page.next_cursor))
    assert ([letter.job.id for letter in rest], rest.next_cursor) == ([again], None)
    assert (page[0].error_class, page[0].hint) == ("É", "é")
    every = [again, thrown, broken]
    assert go(dead_letters.replay([again], **BY)) == Bulk(found=1, done=1)
    assert go(dead_letters.discard([thrown], **BY)) == Bulk(found=1, done=1)
    edit = Edit(patch={"é": "ö"}, priority=1)
    fixed = go(dead_letters.fix(broken, edit, successor := ids.make(), **BY))
    assert fixed.resolution.diff == [
        {"path": '$["\\u00e9"]', "before": 2, "after": "ö"},
        {"path": "priority", "before": 5, "after": 1},
    ]
    assert go(dead_letters.discard(every, **BY)) == Bulk(
        found=3,
        refused={
            again: "it is queued, not dead",
            thrown: "it was discarded already",
            broken: "it was fixed already",
        },
    )
    assert (look(go, successor).payload, look(go, successor).key) == ({"é": "ö"}, "é2")
    assert put(go, key="é2").id == successor
    assert go(dead_letters.origin(successor)) == go(dead_letters.get_letter(broken)) == fixed
    assert [became.resolution for became in go(dead_letters.history(again))] == ["replayed"]
    assert go(listing.list_jobs(JobFilter(queue="q:deadletter"))).items == []
    assert (go(inspect.count()).dead_letters, look(go, again).state) == (0, JobState.QUEUED)
    assert [events(go, job_id)[-1] for job_id in every] == ["job.replayed", "job.discarded", "job.fixed"]
    return [*every, successor]


SCENARIOS = [each_death_is_resolved_once]
