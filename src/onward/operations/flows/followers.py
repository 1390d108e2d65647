"""Jobs that wait for others: who waits for whom, and what becomes of those who waited.

An edge is resolved once, when its parent ends. A parent tells its end to every edge that is tied: it was
there, or kept the parent's row locked, before the parent could end. Whoever stores an edge and may not lock,
or would have to wait for a lock, leaves it untied, and a worker's loop ties it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from onward.core.flows.flow import Tie, cause_of, check_after, judge, state_when_ready
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, Enqueued, JobState, NewJob, instant
from onward.errors import InvalidJob, JobNotFound
from onward.operations.flows.ended_job import Settled
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

EDGES = ("job_id", "parent_id", "org_id", "needs", "on_failure", "parent_state", "tied")
TIED = ("job_id", "parent_id")
RESOLVED = ("job_id", "parent_id", "state")
RELEASED = ("id", "pending", "state")
BROKEN = ("id", "error")

_AT_ONCE = 5000
_FIRST = ("00000000-0000-0000-0000-000000000000",) * 2


@dataclass(frozen=True, slots=True)
class Edge:
    """One job waits for another."""

    job_id: JobId
    parent_id: JobId
    org_id: str | None
    needs: str
    on_failure: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A job for which another waits, as it was found; `final` is a death that no replay can follow."""

    id: JobId
    org_id: str | None
    state: JobState | None
    job_type: str | None
    final: bool = False


@dataclass(slots=True)
class Followed:
    """What became of followers: where they are now, and what follows from that in turn."""

    states: dict[JobId, JobState] = field(default_factory=dict)
    ended: set[JobId] = field(default_factory=set)
    """Those that were cancelled, and that others follow or count."""
    keys: set[str] = field(default_factory=set)
    """Limits of which a job waits for a slot now."""
    left: set[JobId] = field(default_factory=set)
    """Parents with more followers than one transaction should touch."""
    busy: set[JobId] = field(default_factory=set)
    """Parents of which somebody else holds a follower just now."""

    def add(self, more: Followed) -> None:
        """Take in what became of others."""
        self.states |= more.states
        self.ended |= more.ended
        self.keys |= more.keys
        self.left |= more.left
        self.busy |= more.busy


@dataclass(frozen=True, slots=True)
class Prepared:
    """Jobs to store, with how many others each waits for; and what was found of those others."""

    jobs: Sequence[NewJob]
    parents: Mapping[JobId, Parent]


def prepare(jobs: Sequence[NewJob], ids: Sequence[JobId]) -> Operation[Prepared]:
    """Find the jobs that these wait for; raises JobNotFound before anything is written."""
    places = {job_id: at for at, job_id in enumerate(ids)}
    waits = {at: check_after(new) for at, new in enumerate(jobs) if isinstance(new, NewJob) and new.after}
    strangers = sorted({parent for after in waits.values() for parent in after if parent not in places})
    found = {one.id: one for one in (yield from _find(strangers))} if strangers else {}
    ready = list(jobs)
    for at, after in waits.items():
        new = jobs[at]
        for parent in after:
            _check_parent(new, parent, places.get(parent), jobs, found)
        unmet = [one for one in after if one in places or not _is_met(new, found[one])]
        ready[at] = replace(new, after=after, pending=len(unmet))
    for at in {places[parent] for after in waits.values() for parent in after if parent in places}:
        ready[at] = replace(ready[at], ties=ready[at].ties | Tie.FOLLOWED)
    return Prepared(ready, found)


def connect(
    prepared: Prepared, ids: Sequence[JobId], answers: Sequence[Enqueued], *, at_once: bool
) -> Operation[list[Enqueued]]:
    """Note who waits for whom, of jobs that were stored just now; gives the answers as they are then.

    Not `at_once` is in a caller's transaction, for whose end nobody else should have to wait.
    """
    places = {job_id: at for at, job_id in enumerate(ids)}
    rows: list[tuple[Scalar, ...]] = []
    loose: list[Edge] = []
    surplus: dict[JobId, int] = {}
    for new, answer in zip(prepared.jobs, answers, strict=True):
        # A job that was there before keeps what it waits for.
        if not answer.created or not new.after:
            continue
        unmet = 0
        for edge, parent_state, tied in _edges(new, answer.id, prepared, places, answers):
            rows.append((*_columns(edge), parent_state, int(tied)))
            unmet += parent_state is None
            if not tied:
                loose.append(edge)
        # Two that it waits for may have turned out to be one, by their key.
        if unmet < new.pending:
            surplus[answer.id] = new.pending - unmet
    if rows:
        yield Statement("add_followers", {"edges": Rows.of(EDGES, rows)})
    followed = (yield from _lower(surplus)) if surplus else Followed()
    if loose and at_once:
        followed.add((yield from tie(loose)))
    elif loose:
        yield from _follow(loose, own=True)
    return [
        replace(one, state=followed.states.get(one.id, one.state)) if one.id in followed.states else one
        for one in answers
    ]


def settle_followers(ended: Sequence[Settled]) -> Operation[Followed]:
    """Release or cancel the jobs that waited for these, as many as one transaction should touch."""
    parents = {one.id: Parent(one.id, one.org_id, one.state, one.job_type) for one in ended}
    followed, budget, cursor = Followed(), _AT_ONCE, _FIRST
    while True:
        edges = yield from _page(parents, cursor)
        due = [edge for edge in edges if _verdict(edge, parents[edge.parent_id]) != "open"]
        if due:
            followed.add((yield from _resolve(due, parents)))
            budget -= len(due)
        if len(edges) < _AT_ONCE:
            return followed
        cursor = edges[-1].parent_id, edges[-1].job_id
        if budget <= 0:
            followed.left = {one for one in parents if one >= cursor[0]}
            return followed


def find_untied(limit: int = _AT_ONCE) -> Operation[list[Edge]]:
    """Find edges of which no parent knows; locks nothing."""
    return [Edge(*row) for row in (yield Statement("find_untied", {"limit": limit}))]


def tie(edges: Sequence[Edge]) -> Operation[Followed]:
    """Have parents tell their end to those that wait for them; what has ended before is told now.

    What is locked stays untied. To be run in one transaction.
    """
    found = {one.id: one for one in (yield from _find(sorted({edge.parent_id for edge in edges})))}
    # Of one that is another org's, no more than of one that is not there.
    parents = {edge.parent_id: Parent(edge.parent_id, edge.org_id, None, None) for edge in edges} | found
    over = [edge for edge in edges if parents[edge.parent_id].state in {None, *ENDED}]
    due = [edge for edge in over if _verdict(edge, parents[edge.parent_id]) != "open"]
    # Followers before parents: who settles locks followers, too, and following waits for nobody.
    followed = (yield from _resolve(due, parents)) if due else Followed()
    waiting = [edge for edge in over if _verdict(edge, parents[edge.parent_id]) == "open"]
    if waiting:
        yield from _follow(waiting, dead=True)
    if live := [edge for edge in edges if edge not in set(over)]:
        yield from _follow(live)
    return followed


def give_up(ids: Collection[JobId]) -> Operation[None]:
    """Say that these parents are gone, or that no replay of them comes: their followers are seen to."""
    if ids:
        yield Statement("untie_followers", {"ids": as_json(sorted(ids))})


def forget(ids: Collection[JobId]) -> Operation[None]:
    """Leave no trace of jobs that were removed; to be called after that, in the same transaction."""
    if ids:
        yield from give_up(ids)
        yield Statement("forget_followers", {"ids": as_json(sorted(ids))})


def hand_over(job_id: JobId, successor_id: JobId) -> Operation[None]:
    """Have those that still wait for a job wait for the one that replaces it."""
    yield Statement("hand_over_followers", {"id": job_id, "successor": successor_id})


def _find(ids: Sequence[JobId]) -> Operation[list[Parent]]:
    rows = yield Statement("find_parents", {"ids": as_json(ids)})
    return [
        Parent(job_id, org, JobState(state), kind, bool(final)) for job_id, org, state, kind, final in rows
    ]


def _check_parent(
    new: NewJob, parent: JobId, place: int | None, jobs: Sequence[NewJob], found: Mapping[JobId, Parent]
) -> None:
    if place is not None:
        if jobs[place].org_id != new.org_id:
            raise InvalidJob(
                f"a job of org {new.org_id!r} would wait for one of org {jobs[place].org_id!r}; "
                "make a flow for each org"
            )
    elif parent not in found or found[parent].org_id != new.org_id:
        # One of another org is told from one that never was by nothing.
        raise JobNotFound(
            f"no job {parent}, for which {new.job_type} should wait; it was never enqueued here, "
            "or has been removed"
        )


def _is_met(new: NewJob, parent: Parent) -> bool:
    return parent.state in ENDED and judge(new.after_needs, new.after_failure, parent.state) == "met"


def _edges(
    new: NewJob,
    job_id: JobId,
    prepared: Prepared,
    places: Mapping[JobId, int],
    answers: Sequence[Enqueued],
) -> Iterator[tuple[Edge, str | None, bool]]:
    """Give the edges of a job, each once; which are resolved, and of which the parent knows."""
    seen = {job_id}
    for asked in new.after:
        place = places.get(asked)
        # A parent that was asked for in this call may be one that held its key.
        parent = asked if place is None else answers[place].id
        if parent in seen:
            continue
        seen.add(parent)
        known = prepared.parents.get(asked)
        met = known is not None and _is_met(new, known)
        tied = met or (place is not None and answers[place].created)
        edge = Edge(job_id, parent, new.org_id, new.after_needs, new.after_failure)
        yield edge, str(known.state) if met and known is not None else None, tied


def _columns(edge: Edge) -> tuple[Scalar, ...]:
    return edge.job_id, edge.parent_id, edge.org_id, edge.needs, edge.on_failure


def _page(parents: Iterable[JobId], cursor: tuple[JobId, JobId]) -> Operation[list[Edge]]:
    asked: dict[str, Scalar] = {"ids": as_json(sorted(parents)), "limit": _AT_ONCE}
    rows = yield Statement("read_followers", {**asked, "parent": cursor[0], "job": cursor[1]})
    return [Edge(*row) for row in rows]


def _verdict(edge: Edge, parent: Parent) -> str:
    return judge(edge.needs, edge.on_failure, parent.state, final=parent.final)


def _follow(edges: Sequence[Edge], *, own: bool = False, dead: bool = False) -> Operation[None]:
    """Mark parents, so that their end is told; of those that were marked the edges are tied."""
    parents = as_json(sorted({edge.parent_id for edge in edges}))
    marking = (
        Statement("follow_dead_jobs", {"ids": parents})
        if dead
        else Statement("follow_jobs", {"ids": parents, "own": int(own)})
    )
    marked = {job_id for (job_id,) in (yield marking)}
    tied = [(edge.job_id, edge.parent_id) for edge in edges if edge.parent_id in marked]
    if tied:
        yield Statement("tie_followers", {"tied": Rows.of(TIED, tied)})


def _resolve(edges: Sequence[Edge], parents: Mapping[JobId, Parent]) -> Operation[Followed]:
    """Resolve edges whose parent has ended, and see to those that waited."""
    waiting, held = yield from _lock({edge.job_id for edge in edges})
    busy = {edge.parent_id for edge in edges if edge.job_id in held}
    # Whoever can write an edge of his org must not move the jobs of another one.
    own = [
        edge
        for edge in edges
        if edge.job_id not in held and (edge.job_id not in waiting or waiting[edge.job_id][1] == edge.org_id)
    ]
    rows = [(edge.job_id, edge.parent_id, parents[edge.parent_id].state or "removed") for edge in own]
    resolved = {
        (job_id, parent)
        for job_id, parent in (
            yield Statement("resolve_followers", {"resolved": Rows.of(RESOLVED, [*map(_texts, rows)])})
        )
    }
    met: dict[JobId, int] = {}
    broken: dict[JobId, list[Parent]] = {}
    for edge in own:
        if (edge.job_id, edge.parent_id) in resolved and edge.job_id in waiting:
            parent = parents[edge.parent_id]
            if _verdict(edge, parent) == "met":
                met[edge.job_id] = met.get(edge.job_id, 0) + 1
            else:
                broken.setdefault(edge.job_id, []).append(parent)
    followed = yield from _release({one: met[one] for one in met if one not in broken}, waiting)
    followed.add((yield from _cancel(broken)))
    followed.busy = busy
    return followed


def _texts(row: tuple[str, ...]) -> tuple[Scalar, ...]:
    return tuple(map(str, row))


def _lock(ids: Collection[JobId]) -> Operation[tuple[dict[JobId, Row], set[JobId]]]:
    """Lock those that still wait; gives them, and which of them somebody else holds."""
    rows = yield Statement("lock_followers", {"ids": as_json(sorted(ids))})
    return {row[0]: row[:-1] for row in rows if not row[-1]}, {row[0] for row in rows if row[-1]}


def _lower(counts: Mapping[JobId, int]) -> Operation[Followed]:
    # They were made just now: nobody else can hold one.
    waiting, _ = yield from _lock(counts.keys())
    return (yield from _release(counts, waiting))


def _release(met: Mapping[JobId, int], waiting: Mapping[JobId, Row]) -> Operation[Followed]:
    """Count what followers need not wait for any more; who waits for nobody is ready."""
    followed = Followed()
    moves: list[tuple[Scalar, ...]] = []
    for job_id, count in met.items():
        _, _, pending, run_at, limit_key, at = waiting[job_id]
        left = max(0, pending - count)
        state = JobState.BLOCKED if left else state_when_ready(instant(run_at), instant(at), limit_key)
        moves.append((job_id, left, state.value))
        followed.states[job_id] = state
        if not left and state == JobState.BLOCKED:
            followed.keys.add(limit_key)
    if moves:
        yield Statement("move_followers", {"released": Rows.of(RELEASED, moves)})
    return followed


def _cancel(broken: Mapping[JobId, Sequence[Parent]]) -> Operation[Followed]:
    followed = Followed()
    if broken:
        causes = {
            job_id: cause_of((one.id, one.state, one.job_type) for one in parents)
            for job_id, parents in broken.items()
        }
        rows = [(job_id, as_json(cause)) for job_id, cause in causes.items()]
        gone = yield Statement("cancel_followers", {"broken": Rows.of(BROKEN, rows)})
        followed.states = {job_id: JobState.CANCELLED for job_id, _ in gone}
        followed.ended = {job_id for job_id, flow in gone if flow > 0}
    return followed
