"""What a metric of failures needs: how many, by job type, queue and error class."""

from __future__ import annotations

import pytest

from onward import JobState, Skip, Unrecoverable
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Transition
from onward.worker.tally import Failure, Tally
from tests.work.rules.test_lifecycle import job


@pytest.mark.anyio
async def test_failures_are_counted_by_job_type_queue_and_error_class(app):
    class CardRefused(Unrecoverable):
        pass

    @app.job(queue="q:money")
    async def charge() -> None:
        raise CardRefused

    @app.job(max_attempts=1)
    async def look_up() -> None:
        raise KeyError("nothing there")

    @app.job
    async def fine(skip: bool) -> None:
        if skip:
            raise Skip("nothing to do")

    app.enqueue_many([charge.build(), charge.build(), look_up.build(), fine.build(True), fine.build(False)])
    tally = await app.worker(drain=True).run()
    assert tally.failures == {
        Failure("charge", "q:money", "CardRefused"): 2,
        Failure("look_up", "q:default", "KeyError"): 1,
    }


def test_the_kinds_of_failures_are_bounded():
    tally = Tally()
    for number in range(2000):
        error = ErrorRecord(f"Made{number}")
        tally.add(job(), Transition(JobState.DEAD, "job.deadlettered", "dead", 1, 0, 0, error=error))
    assert len(tally.failures) <= 1001
    assert sum(tally.failures.values()) == 2000
