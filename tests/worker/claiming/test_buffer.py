"""Whose turn it is among claimed jobs, and how many are claimed ahead."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from onward import JobState
from onward.core.jobs.job import COLUMNS
from onward.core.work.claim import QueuePosition
from onward.results import Job
from onward.worker.claiming.buffer import Buffer
from onward.worker.claiming.throughput import Pace

START = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING: Any = dict.fromkeys(COLUMNS)
BLANK = Job(**NOTHING)


def jobs(queue: str, count: int, priority: int = 5, after: int = 0) -> list[Job]:
    return [
        replace(
            BLANK,
            id=f"{queue}-{priority}-{number:05}",
            queue=queue,
            priority=priority,
            state=JobState.RUNNING,
            run_at=START + timedelta(seconds=number),
        )
        for number in range(after, after + count)
    ]


def take_all(buffer: Buffer, count: int) -> list[Job]:
    taken = []
    for _ in range(count):
        job = buffer.take()
        assert job is not None
        buffer.done(job.queue)
        taken.append(job)
    return taken


def test_the_critical_queue_gets_more_turns_and_leaves_some_to_the_others():  # S4-20
    buffer = Buffer(10)
    for queue in ("q:critical", "q:default", "q:exports"):
        buffer.add(queue, jobs(queue, 100))
    first = Counter(job.queue for job in take_all(buffer, 60))
    assert first == {"q:critical": 40, "q:default": 10, "q:exports": 10}


def test_claims_go_on_where_the_last_one_ended_and_return_to_the_front_soon():
    lane = Buffer(10).lane("q")
    assert lane.past(100.0) is None
    [first, second] = map(QueuePosition.of, jobs("q", 2))
    lane.reached = first
    assert lane.past(100.01) is first
    lane.reached = second
    assert lane.past(100.049) is second
    assert lane.past(100.06) is None
    assert lane.past(100.07) is second
    lane.reached = None
    assert lane.past(100.08) is None


def test_a_more_urgent_job_overtakes_those_that_wait():
    buffer = Buffer(10)
    buffer.add("q", jobs("q", 3))
    buffer.add("q", jobs("q", 2, priority=1))
    buffer.add("q", jobs("q", 2, after=3))
    assert [job.id for job in take_all(buffer, 7)] == [
        "q-1-00000", "q-1-00001", "q-5-00000", "q-5-00001", "q-5-00002", "q-5-00003", "q-5-00004",
    ]  # fmt: skip
    assert buffer.take() is None


def test_a_queue_that_is_full_waits_while_another_goes_on():
    buffer = Buffer(10, {"small": 1, "large": None})
    buffer.add("small", jobs("small", 3))
    buffer.add("large", jobs("large", 3))
    taken = [job.queue for _ in range(4) if (job := buffer.take())]
    assert Counter(taken) == {"small": 1, "large": 3}
    assert buffer.take() is None
    buffer.done("small")
    assert buffer.take().queue == "small"


def test_what_to_claim_is_shared_by_weight_and_bounded_by_each_queue():
    buffer = Buffer(10, {"q:critical": None, "q:default": None, "tiny": 1})
    shares = {lane.queue: share for lane, share in buffer.shares(["q:critical", "q:default", "tiny"], 0)}
    assert shares["q:critical"] > shares["q:default"] > 0
    assert shares["tiny"] == 1
    assert [(lane.queue, share) for lane, share in buffer.shares(["q:default"], 90)] == [("q:default", 100)]
    buffer.add("q:default", jobs("q:default", 100))
    assert buffer.shares(["q:default"], 90) == []


def test_what_a_full_queue_has_claimed_ahead_keeps_no_slot_from_the_others():
    buffer = Buffer(10, {"small": 1, "large": None})
    buffer.add("small", jobs("small", 10))
    assert buffer.take().queue == "small"
    assert buffer.take() is None
    assert buffer.queued == 0
    assert [(lane.queue, share) for lane, share in buffer.shares(["large"], 0)] == [("large", 9)]
    assert buffer.shares(["small"], 12) == []


def test_trimming_gives_back_the_least_urgent_of_the_longest_queue():
    buffer = Buffer(10)
    buffer.add("long", jobs("long", 5))
    buffer.add("short", jobs("short", 1))
    assert [job.id for job in buffer.trim(3)] == ["long-5-00004", "long-5-00003", "long-5-00002"]
    assert buffer.length == 3


def test_fast_jobs_are_claimed_ahead_and_slow_ones_are_not():
    pace = Pace(0.0, 10)
    assert pace.ahead(0.0) == 0
    pace.began(0.0)
    for step in range(1, 200):
        pace.ended(step * 0.01, 300)
    assert pace.ahead(2.0) == 2000, "30 000 a second, bounded"
    slow = Pace(0.0, 10)
    slow.began(0.0)
    for step in range(1, 200):
        slow.ended(step * 0.2, 1)
    assert slow.ahead(40.0) == 0
    assert slow.most(40.0) <= 10


def test_a_worker_that_waits_for_its_next_claim_is_not_slow():
    pace = Pace(0.0, 10)
    now = 0.0
    aheads = []
    for claimed in (10, 110, 500):
        # It waits for a second, and what comes ends within microseconds.
        now += 1.0
        pace.began(now)
        now += claimed * 0.000_02
        pace.ended(now, claimed)
        pace.rested(now)
        aheads.append(pace.ahead(now + 1.0))
    assert aheads == [100, 2000, 2000], "the first few are trusted for a small claim"


def test_few_quick_jobs_say_little_and_slow_ones_are_seen_at_once():
    pace = Pace(0.0, 10)
    for start in range(9):
        pace.began(start)
        pace.ended(start + 0.000_1)
        pace.rested(start + 0.000_1)
    assert pace.ahead(10.0) == 0, "fewer than there are slots by default"
    slow = Pace(0.0, 10)
    slow.began(0.0)
    slow.ended(0.2, 10)
    slow.rested(0.2)
    assert slow.ahead(5.0) == 5, "50 a second, however long it rested"


def test_the_pace_falls_when_nothing_ends():
    pace = Pace(0.0, 10)
    pace.began(0.0)
    for step in range(1, 100):
        pace.ended(step * 0.01, 300)
    assert pace.most(1.0) > 10_000
    assert pace.most(3.0) < 10


def test_many_quick_jobs_do_not_hide_that_the_next_ones_are_slow():
    pace = Pace(0.0, 10)
    pace.began(0.0)
    pace.ended(0.03, 1000)
    # Too soon after that to be a pace of their own.
    pace.ended(0.04, 1000)
    assert pace.most(0.05) > 1000
    assert pace.most(0.24) == 100, "ten slots that were busy for 0.2 s: 50 a second at most"
    assert pace.ahead(0.24) == 5
    pace.ended(0.54, 10)
    assert pace.ahead(0.54) <= 5, "nor again when the first of the slow ones end"
    pace.ended(0.57, 2000)
    assert pace.ahead(0.57) == 2000, "quick ones are seen at once"
