"""Claimed jobs that wait for a slot, queue by queue, and who is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from onward.core.jobs.job import Job
from onward.core.policy.category import Q_CRITICAL

WEIGHTS: Mapping[str, int] = {Q_CRITICAL: 4}
"""How often a queue's turn comes when several have jobs; 1 where nothing is said."""

# For so long, a claim goes on where the last one ended.
_FRONT_SECONDS = 0.05

_urgency = attrgetter("priority", "run_at", "id")
_rank = attrgetter("rank")


class Lane:
    """One queue: its waiting jobs, how many of it run, and how many may.

    While claims bring as many as they ask for, the last job of them is `reached`.
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
        self.reached: Job | None = None
        self.front_at = float("-inf")
        self.jobs: deque[Job] = deque()

    def past(self, now: float) -> Job | None:
        """Tell behind which job to claim on; None for the front, where more urgent ones may have come."""
        if self.reached is None or now - self.front_at > _FRONT_SECONDS:
            self.front_at = now
            return None
        return self.reached

    def add(self, jobs: Sequence[Job], *, in_turn: bool = False) -> None:
        """Take jobs that were claimed in their order; more urgent ones may overtake what waits."""
        overtakes = not in_turn and bool(self.jobs) and _urgency(jobs[0]) < _urgency(self.jobs[-1])
        self.jobs.extend(jobs)
        if overtakes:
            self.jobs = deque(sorted(self.jobs, key=_urgency))


class Buffer:
    """Picks by turns: a queue of weight 4 gets four turns where others get one, and none is left out."""

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
        """Count the jobs that wait for any slot; those of a queue at its most wait for one of its own."""
        return sum([len(lane.jobs) for lane in self._waiting if not self._full(lane)])

    def lane(self, queue: str) -> Lane:
        """Give the lane of a queue, made at first use."""
        lane = self._lanes.get(queue)
        if lane is None:
            most = self._most.get(queue) or self._concurrency
            lane = self._lanes[queue] = Lane(queue, WEIGHTS.get(queue, 1), most)
        return lane

    def add(self, queue: str, jobs: Sequence[Job], *, in_turn: bool = False) -> None:
        """Let claimed jobs of a queue wait; those that were claimed by turns stay in their order."""
        if jobs:
            lane = self.lane(queue)
            if not lane.jobs:
                self._waiting.append(lane)
            lane.add(jobs, in_turn=in_turn)
            self.length += len(jobs)

    def expect(self, lane: Lane, count: int) -> None:
        """Keep room for jobs that are being claimed, or for fewer when they are here."""
        lane.coming += count
        self.coming += count

    def ids(self) -> set[str]:
        """Give the jobs that wait here."""
        return {job.id for lane in self._waiting for job in lane.jobs}

    def take(self) -> Job | None:
        """Give the next job to run, whose place in its queue is taken until `done`; none once closed."""
        if self._closed or not self._waiting:
            return None
        # Mostly one queue has jobs: no need to ask whose turn it is.
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
        """Let no more job begin; `trim` takes out what waits."""
        self._closed = True

    def done(self, queue: str) -> None:
        """Free the place that a job took."""
        self._lanes[queue].running -= 1
        self.running -= 1

    def shares(self, queues: Iterable[str], ahead: int) -> list[tuple[Lane, int]]:
        """Tell how many jobs to claim from each of these queues, by their weights."""
        room = self._concurrency + ahead - self.running - self.queued - self.coming
        # The heaviest first, so that rounding up gives the last places to them.
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
        """Take out the jobs of some orgs."""
        out: list[Job] = []
        for lane in list(self._waiting):
            out += [job for job in lane.jobs if job.org_id in orgs]
            lane.jobs = deque(job for job in lane.jobs if job.org_id not in orgs)
            if not lane.jobs:
                self._waiting.remove(lane)
        self.length -= len(out)
        return out

    def trim(self, keep: int) -> list[Job]:
        """Take out all but so many jobs, the least urgent of each queue first."""
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
        # Smooth weighted turns: everyone earns its weight, the richest goes and pays the sum.
        for lane in lanes:
            lane.credit += lane.weight
        best = max(lanes, key=lambda lane: lane.credit)
        best.credit -= sum(lane.weight for lane in lanes)
        return best
