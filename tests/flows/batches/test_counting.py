"""Each end is counted once, whatever became of the job before, and the batch ends once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from onward import Edit, JobFilter, Succeeded
from onward.operations.work import finish
from tests.flows.batches.crew import DEAD, new


def test_a_batch_tells_how_far_it_has_come(crew):
    batch_id, [first, second, third] = crew.batch(name="import")
    assert crew.counts(batch_id) == (3, 0, 0, 0, 0)
    crew.claim()
    assert crew.counts(batch_id) == (0, 3, 0, 0, 0)
    crew.end(first)
    crew.end(second, outcome=DEAD)
    batch = crew.read(batch_id)
    assert crew.counts(batch_id) == (0, 1, 1, 1, 0)
    assert (batch.total, batch.ended, batch.share, batch.name) == (3, 2, 2 / 3, "import")
    assert batch.ended_at is None
    assert crew.called() == []
    crew.end(third)
    assert crew.read(batch_id).ended_at is not None
    assert crew.read(batch_id).share == 1.0


@pytest.mark.parametrize(
    ("outcomes", "called"),
    [
        ([None, None], ["on_complete", "on_success"]),
        ([None, DEAD], ["on_complete", "on_failure"]),
        ([DEAD, None], ["on_complete", "on_failure"]),
    ],
)
def test_callbacks_are_enqueued_when_the_last_job_has_ended(crew, outcomes, called):
    batch_id, ids = crew.batch(2)
    for job_id, outcome in zip(ids, outcomes, strict=True):
        assert crew.called() == []
        crew.end(job_id, outcome=outcome)
    assert crew.called() == called
    batch = crew.read(batch_id)
    after = crew.client.jobs.list(JobFilter(queue="q:after")).items
    assert {job.id for job in after} == {batch.callbacks[name] for name in called}
    assert {(job.batch_id, job.correlation_id) for job in after} == {(batch_id, batch_id)}
    assert batch.total == 2, "callbacks are not counted"


def test_a_cancelled_job_makes_it_a_failure(crew):
    batch_id, [first, second] = crew.batch(2)
    crew.client.jobs.cancel(second, reason="no need")
    assert crew.counts(batch_id) == (1, 0, 0, 0, 1)
    crew.end(first)
    assert crew.called() == ["on_complete", "on_failure"]


def test_a_batch_without_jobs_ends_at_once(crew):
    batch_id, _ = crew.batch([])
    assert crew.called() == ["on_complete", "on_success"]
    assert (crew.read(batch_id).total, crew.read(batch_id).share) == (0, 1.0)
    assert crew.read(batch_id).ended_at is not None


def test_a_job_whose_key_is_held_is_not_in_the_batch(crew):
    crew.client.enqueue(new(key="k"))
    batch_id, _ = crew.batch([new(key="k"), new(key="other")])
    assert crew.read(batch_id).total == 1
    crew.batch([new(key="k")])
    assert crew.called() == ["on_complete", "on_success"], "of the second, which has no job"


def test_a_replay_takes_its_count_back(crew):
    batch_id, [first, second] = crew.batch(2)
    crew.end(first, outcome=DEAD)
    assert crew.counts(batch_id) == (1, 0, 0, 1, 0) or crew.counts(batch_id) == (0, 1, 0, 1, 0)
    crew.client.dead.replay([first], reason="mended")
    batch = crew.read(batch_id)
    assert (batch.total, batch.dead, batch.ended) == (2, 0, 0)
    crew.end(second)
    assert crew.called() == [], "the replayed one is still to come"
    crew.end(first)
    assert crew.counts(batch_id) == (0, 0, 2, 0, 0)
    assert crew.called() == ["on_complete", "on_success"]


def test_a_replay_after_the_end_moves_the_counts_and_calls_nobody_again(crew):
    batch_id, [first, second] = crew.batch(2)
    crew.end(first, outcome=DEAD)
    crew.end(second)
    ended_at = crew.read(batch_id).ended_at
    for outcome, counts in ((DEAD, (0, 0, 1, 1, 0)), (None, (0, 0, 2, 0, 0))):
        crew.client.dead.replay([first], reason="mended")
        assert crew.counts(batch_id) == (1, 0, 1, 0, 0)
        crew.end(first, outcome=outcome)
        assert crew.counts(batch_id) == counts
    assert crew.read(batch_id).ended_at == ended_at
    assert crew.called() == ["on_complete", "on_failure"]


def test_a_reset_by_its_key_takes_the_count_back_as_well(crew):
    batch_id, [first, second] = crew.batch([new(key="k"), new()])
    crew.end(first)
    crew.client.enqueue(new(key="k", on_conflict="reset", reset_from=frozenset({"succeeded"})))
    assert crew.read(batch_id).succeeded == 0
    crew.end(second)
    assert crew.called() == []
    crew.end(first, outcome=DEAD)
    assert crew.counts(batch_id) == (0, 0, 1, 1, 0)
    assert crew.called() == ["on_complete", "on_failure"]


def unsettled(crew, job_id, outcome):
    """End a job as a worker would that is killed right after."""
    client = crew.client
    client.store.run(lambda: finish.finish([client.policies.end_of(crew.held.pop(job_id), outcome, 0.5)]))


def test_an_end_that_nobody_has_settled_is_counted_by_the_next_who_looks_and_once(crew):
    batch_id, [first, second] = crew.batch(2)
    crew.claim()
    unsettled(crew, first, DEAD)
    assert crew.counts(batch_id) == (0, 1, 0, 1, 0)
    crew.end(second)
    # A batch must not succeed while a death is not counted. On SQLite the next end finds it.
    assert "on_success" not in crew.called()
    while crew.client.worker.follow_up():
        pass
    assert crew.called() == ["on_complete", "on_failure"]
    assert crew.counts(batch_id) == (0, 0, 1, 1, 0)


def test_an_end_of_just_now_is_left_alone_with_patience(crew):
    batch_id, [only] = crew.batch(1)
    crew.claim()
    unsettled(crew, only, Succeeded())
    hour = timedelta(hours=1)
    assert crew.client.worker.follow_up(patience=hour) == 0
    assert crew.read(batch_id).ended_at is None
    assert crew.client.at(datetime.now(UTC) + 2 * hour).worker.follow_up(patience=hour) == 1
    assert crew.called() == ["on_complete", "on_success"]


def test_many_who_settle_at_the_same_time_end_a_batch_once(crew):
    batch_id, ids = crew.batch(40)
    crew.claim()
    jobs = [crew.held[job_id] for job_id in ids]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda job: crew.client.worker.finish([job.end_with(Succeeded())]).require(), jobs))
    # Whoever met another's lock has left it to the worker's loop.
    while crew.client.worker.follow_up():
        pass
    assert crew.counts(batch_id) == (0, 0, 40, 0, 0)
    assert crew.called() == ["on_complete", "on_success"]


def test_deleted_jobs_keep_no_batch_from_its_end(crew):
    batch_id, [first, _] = crew.batch([new(), new(subject="booking:1")])
    crew.claim()
    crew.client.worker.release([job.held_lease for job in list(crew.held.values())])
    crew.end(first)
    assert crew.called() == []
    crew.client.worker.release([crew.held.popitem()[1].held_lease])
    crew.client.jobs.drop_subject("booking:1", policy="delete")
    assert crew.called() == ["on_complete", "on_success"]
    assert crew.read(batch_id).total == 1


def test_a_successor_of_a_dead_job_is_not_counted(crew):
    batch_id, [first] = crew.batch(1)
    crew.end(first, outcome=DEAD)
    fixed = crew.client.dead.fix(first, Edit(patch={"n": 1}), reason="mended")
    assert crew.counts(batch_id) == (0, 0, 0, 1, 0)
    crew.end(str(fixed.successor_id))
    assert crew.counts(batch_id) == (0, 0, 0, 1, 0)
    assert [job.id for job in crew.client.batches.jobs(batch_id)] == [first]
