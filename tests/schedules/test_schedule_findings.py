"""What the doctor says of schedules: nobody fires them, they come late, or their runs fail."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, Failed, NewJob
from onward.core.policy.built_in import PRUNE
from onward.core.upkeep.facts import Facts, ScheduleSeen, WorkerSeen
from onward.core.upkeep.findings import diagnose
from onward.operations.schedules.fire import Known
from onward.results import Finding

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def worker(*, job_types: set[str], schedules: Collection[str] = (), kind: str = "worker") -> WorkerSeen:
    return WorkerSeen(
        id="w", kind=kind, job_types=frozenset(job_types), schedules=frozenset(schedules),
        started_at=NOW - HOUR, seen_at=NOW, lease_until=NOW + MINUTE,
    )  # fmt: skip


def seen(**about) -> ScheduleSeen:
    facts: dict[str, Any] = {
        "name": "nightly", "job_type": "report", "source": "code", "next_at": NOW + HOUR,
    }  # fmt: skip
    return ScheduleSeen(**facts | about)


def said(one: ScheduleSeen, *workers: WorkerSeen) -> Finding | None:
    found = diagnose(Facts(now=NOW, here=NOW, workers=workers, schedules=[one]))
    return next((finding for finding in found if finding.code == "silent_schedule"), None)


KNOWS = worker(job_types={"report"}, schedules={"nightly"})


@pytest.mark.parametrize(
    ("workers", "why", "remedy"),
    [
        ([], "no worker fires it", "onward worker APP"),
        ([KNOWS], "no worker fires it", "onward worker APP"),
        ([worker(job_types={"other"})], "no worker knows the job type report", "onward worker APP"),
        (
            [worker(job_types={"report"})],
            "no worker's code defines it any more",
            "onward schedules remove --reason … nightly",
        ),
    ],
)
def test_an_occurrence_that_nobody_fires_is_a_problem(workers, why, remedy):
    finding = said(seen(next_at=NOW - 2 * MINUTE), *workers)
    assert finding is not None
    assert (finding.severity, finding.evidence["schedule"], finding.remedy) == ("problem", "nightly", remedy)
    assert finding.title.startswith("schedule nightly is due for 2 min, and no worker fires it")
    assert finding.title.endswith(why)


def test_a_job_type_that_is_spelt_wrong_is_told_its_neighbour():
    finding = said(seen(source="database", job_type="reprot", next_at=NOW - 2 * MINUTE), KNOWS)
    assert finding is not None
    assert finding.title.endswith("no worker knows the job type reprot; report is one")
    assert finding.remedy == "onward schedules remove --reason … nightly"


def test_a_warm_up_is_waited_for():
    late = seen(next_at=NOW - 2 * MINUTE, warm_up=2 * MINUTE)
    assert said(late, KNOWS) is None


@pytest.mark.parametrize("outcome", ["dead", "refused"])
def test_a_run_that_failed_is_a_warning(outcome):
    finding = said(
        seen(occurrence=NOW - HOUR, fired_at=NOW - HOUR, outcome=outcome, error="it is gone"), KNOWS
    )
    assert finding is not None
    assert (finding.severity, finding.remedy) == ("warning", "onward schedules show nightly")
    assert finding.title == f"the last run of schedule nightly was {outcome}: it is gone"


def test_a_late_occurrence_is_a_warning():  # S4-67
    late = seen(occurrence=NOW - 2 * MINUTE, fired_at=NOW, late=True)
    finding = said(late, KNOWS)
    assert finding is not None
    assert (finding.severity, finding.title) == (
        "warning", "the last occurrence of schedule nightly was fired 2 min late",
    )  # fmt: skip
    assert said(late, worker(job_types={"report"}, kind="tick")) is None, "ticks come when they come"


def test_where_nobody_works_the_jobs_of_onward_itself_do_not_matter():
    own = seen(name=PRUNE, job_type=PRUNE, next_at=NOW - HOUR)
    assert said(own) is None
    assert said(own, worker(job_types={PRUNE}, schedules={PRUNE})) is not None


def test_the_doctor_finds_the_schedules_of_which_not_all_is_well(client):
    at = datetime.now(UTC)
    client.at(at - 2 * HOUR).schedules.add("silent", "other", every="1h", anchor=at - 2 * HOUR)
    client.at(at - 2 * HOUR).schedules.add("held", "other", every="1h", anchor=at - 2 * HOUR)
    client.schedules.pause("held", reason="holidays")
    client.at(at - MINUTE).schedules.add("fine", "report", every="1h", anchor=at)
    failing = NewJob(job_type="report", max_attempts=1)
    client.at(at - MINUTE).schedules.add("failing", failing, every="1h", anchor=at)
    fired = client.at(at).worker.schedules.fire(Known({"report"}))
    kill(client, fired.jobs["failing"][0])
    found = [one for one in client.doctor.check() if one.code == "silent_schedule"]
    assert {one.evidence["schedule"]: one.severity for one in found} == {
        "silent": "problem",
        "failing": "warning",
    }


def kill(client: Client, job_id: str) -> None:
    client.worker.register("w")
    jobs = {job.id: job for job in client.worker.claim("q:default", 10, worker_id="w")}
    client.worker.finish([jobs[job_id].end_with(Failed("it is gone"))])
    client.worker.release([job.held_lease for job in jobs.values() if job.id != job_id])
