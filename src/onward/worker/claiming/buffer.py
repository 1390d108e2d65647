"""Claimed jobs that wait for a slot, by queue, and which of them is next.

Queues take weighted turns; within a queue the most urgent job is first, unless its policy sets the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from onward.core.jobs.job import Job
from onward.core.policy.category import Q_CRITICAL
from onward.core.work.claim import QueuePosition

WEIGHTS: Mapping[str, int] = {Q_CRITICAL: 4}
"""How many turns a queue gets when several have jobs; 1 for a queue that is not listed."""

# For this time, each claim continues behind the last job of the one before.
_FRONT_SECONDS = 0.05

_urgency = attrgetter("priority", "run_at", "id")
_rank = attrgetter("rank")


class Lane:
    """One queue: its waiting jobs, how many of its jobs run, and how many may.

    `reached` is the place of the last job of the last claim, if that claim returned as many jobs as it
    asked for.
    """

    __slots__ = (
        "coming", "credit", "front_at", "jobs", "most", "queue", "rank", "reached", "running", "weight",
    )  # fmt: skip

    def __init__(self, queue: str, weight: int, most: int) -> None:
        self.queue = queue
        self.weight = weight
        self.rank = -weight, queue
        self.most = most
        self.running = 0
        self.coming = 0
        self.credit = 0
        self.reached: QueuePosition | None = None
        self.front_at = float("-inf")
        self.jobs: deque[Job] = deque()

    def past(self, now: float) -> QueuePosition | None:
        """Return the job behind which to claim; None for the front, where urgent jobs may be new."""
        if self.reached is None or now - self.front_at > _FRONT_SECONDS:
            self.front_at = now
            return None
        return self.reached

    def add(self, jobs: Sequence[Job], *, in_turn: bool = False) -> None:
        """Add claimed jobs; more urgent ones overtake the waiting jobs, unless claimed `in_turn`."""
        overtakes = not in_turn and bool(self.jobs) and _urgency(jobs[0]) < _urgency(self.jobs[-1])
        self.jobs.extend(jobs)
        if overtakes:
            self.jobs = deque(sorted(self.jobs, key=_urgency))


class Buffer:
    """Picks jobs by turns: a queue of weight 4 gets four turns for each turn of others, and all get some."""

    def __init__(self, concurrency: int, most: Mapping[str, int | None] | None = None) -> None:
        self._concurrency = concurrency
        self._most = most or {}
        self._lanes: dict[str, Lane] = {}
        self._waiting: list[Lane] = []
        self._closed = False
        self.length = 0
        self.running = 0
        self.coming = 0

    @property
    def queued(self) -> int:
        """The number of jobs that wait for any slot, without those of a queue at its own concurrency."""
        return sum([len(lane.jobs) for lane in self._waiting if not self._full(lane)])

    @property
    def busy(self) -> bool:
        """Whether a job waits or runs here."""
        return self.running > 0 or self.length > 0

    def lane(self, queue: str) -> Lane:
        """Return the lane of a queue, created at first use."""
        lane = self._lanes.get(queue)
        if lane is None:
            most = self._most.get(queue) or self._concurrency
            lane = self._lanes[queue] = Lane(queue, WEIGHTS.get(queue, 1), most)
        return lane

    def add(self, queue: str, jobs: Sequence[Job], *, in_turn: bool = False) -> None:
        """Add claimed jobs of a queue; jobs that were claimed `in_turn` stay in their order."""
        if jobs:
            lane = self.lane(queue)
            if not lane.jobs:
                self._waiting.append(lane)
            lane.add(jobs, in_turn=in_turn)
            self.length += len(jobs)

    def expect(self, lane: Lane, count: int) -> None:
        """Reserve room for `count` jobs that are being claimed; a negative count returns it."""
        lane.coming += count
        self.coming += count

    def ids(self) -> set[str]:
        """Return the ids of the jobs that wait here."""
        return {job.id for lane in self._waiting for job in lane.jobs}

    def take(self) -> Job | None:
        """Return the next job to run, or None; the job counts as running in its queue until `done`."""
        if self._closed or not self._waiting:
            return None
        # The usual case, where no turns need to be computed.
        lane = self._waiting[0] if len(self._waiting) == 1 else self._next()
        if lane is None or lane.running >= lane.most:
            return None
        job = lane.jobs.popleft()
        if not lane.jobs:
            self._waiting.remove(lane)
        lane.running += 1
        self.length -= 1
        self.running += 1
        return job

    def close(self) -> None:
        """Let no more jobs begin; `trim` takes out the waiting ones."""
        self._closed = True

    def done(self, queue: str) -> None:
        """Count a job of a queue as no longer running."""
        self._lanes[queue].running -= 1
        self.running -= 1

    def shares(self, queues: Iterable[str], ahead: int) -> list[tuple[Lane, int]]:
        """Return how many jobs to claim from each of these queues, by their weights."""
        room = self._concurrency + ahead - self.running - self.queued - self.coming
        # The heaviest first, so that rounding up favours them.
        lanes = sorted([self.lane(queue) for queue in queues], key=_rank)
        total = sum([lane.weight for lane in lanes])
        shares = []
        for lane in lanes:
            fair = -(-max(room, 0) * lane.weight // total)
            own = lane.most + ahead - lane.running - len(lane.jobs) - lane.coming
            stocked = self._full(lane) and len(lane.jobs) > ahead // 2
            if not stocked and (share := min(fair, own)) > 0:
                shares.append((lane, share))
        return shares

    def take_out(self, orgs: Collection[str]) -> list[Job]:
        """Remove and return the jobs of some orgs."""
        out: list[Job] = []
        for lane in list(self._waiting):
            out += [job for job in lane.jobs if job.org_id in orgs]
            lane.jobs = deque(job for job in lane.jobs if job.org_id not in orgs)
            if not lane.jobs:
                self._waiting.remove(lane)
        self.length -= len(out)
        return out

    def trim(self, keep: int) -> list[Job]:
        """Remove and return all but `keep` jobs, the least urgent of the longest queue first."""
        out: list[Job] = []
        while self.length > keep:
            lane = max(self._waiting, key=lambda lane: len(lane.jobs))
            out.append(lane.jobs.pop())
            self.length -= 1
            if not lane.jobs:
                self._waiting.remove(lane)
        return out

    def _full(self, lane: Lane) -> bool:
        return lane.running >= lane.most < self._concurrency

    def _next(self) -> Lane | None:
        lanes = [lane for lane in self._waiting if lane.running < lane.most]
        if len(lanes) <= 1:
            return lanes[0] if lanes else None
        # Smooth weighted round-robin: each queue earns its weight, the one with most credit pays the sum.
        for lane in lanes:
            lane.credit += lane.weight
        best = max(lanes, key=lambda lane: lane.credit)
        best.credit -= sum(lane.weight for lane in lanes)
        return best
