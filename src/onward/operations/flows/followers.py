"""Jobs that wait for other jobs, their parents, and what happens to them when a parent ends.

An edge is resolved once, when its parent ends. Every tied edge learns of that end: it was stored, or held a
lock on the parent's row, before the parent could end. A writer that may not lock the parent, or would have to
wait for the lock, leaves the edge untied, and a worker's loop ties it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from onward.core.flows.flow import Tie, cause_of, check_after, judge, state_when_ready
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, Enqueued, JobState, NewJob, instant
from onward.errors import InvalidJob, JobNotFound
from onward.operations.flows.pending_end import PendingEnd
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
    """One job that waits for another."""

    job_id: JobId
    parent_id: JobId
    org_id: str | None
    needs: str
    on_failure: str


@dataclass(frozen=True, slots=True)
class ParentJob:
    """A job for which another waits, as it was read; `final` marks a death that can't be replayed."""

    id: JobId
    org_id: str | None
    state: JobState | None
    job_type: str | None
    final: bool = False


@dataclass(slots=True)
class Followed:
    """What happened to followers: their new states, and the follow-up work of that."""

    states: dict[JobId, JobState] = field(default_factory=dict)
    ended: set[JobId] = field(default_factory=set)
    """Followers that were cancelled, and that have followers or a batch themselves."""
    keys: set[str] = field(default_factory=set)
    """Limits for a permit of which a job waits now."""
    left: set[JobId] = field(default_factory=set)
    """Parents with more followers than one transaction should change."""
    busy: set[JobId] = field(default_factory=set)
    """Parents with a follower that another process has locked."""

    def add(self, more: Followed) -> None:
        """Add the result for other followers."""
        self.states |= more.states
        self.ended |= more.ended
        self.keys |= more.keys
        self.left |= more.left
        self.busy |= more.busy


@dataclass(frozen=True, slots=True)
class Prepared:
    """Jobs to store, each with the number of jobs for which it waits, and the parents that were read."""

    jobs: Sequence[NewJob]
    parents: Mapping[JobId, ParentJob]


def prepare(jobs: Sequence[NewJob], ids: Sequence[JobId]) -> Operation[Prepared]:
    """Read the jobs for which these wait; raises JobNotFound before anything is written."""
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
    """Store the edges of jobs that were stored just now; return the answers with their new states.

    Without `at_once` this runs in a caller's transaction, for whose end no other process should have to wait.
    """
    places = {job_id: at for at, job_id in enumerate(ids)}
    rows: list[tuple[Scalar, ...]] = []
    loose: list[Edge] = []
    surplus: dict[JobId, int] = {}
    for new, answer in zip(prepared.jobs, answers, strict=True):
        # A job that existed before keeps its edges.
        if not answer.created or not new.after:
            continue
        unmet = 0
        for edge, parent_state, tied in _edges(new, answer.id, prepared, places, answers):
            rows.append((*_columns(edge), parent_state, int(tied)))
            unmet += parent_state is None
            if not tied:
                loose.append(edge)
        # Two of its parents may turn out to be the same job, by their key.
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


def advance_followers(ended: Sequence[PendingEnd]) -> Operation[Followed]:
    """Release or cancel the jobs that waited for these, at most as many as one transaction should change."""
    parents = {one.id: ParentJob(one.id, one.org_id, one.state, one.job_type) for one in ended}
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
    """Find untied edges, whose parents do not know of them; locks nothing."""
    return [Edge(*row) for row in (yield Statement("find_untied", {"limit": limit}))]


def tie(edges: Sequence[Edge]) -> Operation[Followed]:
    """Mark parents so that their end reaches these edges; resolve edges whose parent has ended already.

    Edges of a locked row stay untied. To be run in one transaction.
    """
    found = {one.id: one for one in (yield from _find(sorted({edge.parent_id for edge in edges})))}
    # A parent of another org is treated like one that does not exist.
    parents = {edge.parent_id: ParentJob(edge.parent_id, edge.org_id, None, None) for edge in edges} | found
    over = [edge for edge in edges if parents[edge.parent_id].state in {None, *ENDED}]
    due = [edge for edge in over if _verdict(edge, parents[edge.parent_id]) != "open"]
    # Lock followers before parents, as `advance_followers` does; marking parents never waits for a lock.
    followed = (yield from _resolve(due, parents)) if due else Followed()
    waiting = [edge for edge in over if _verdict(edge, parents[edge.parent_id]) == "open"]
    if waiting:
        yield from _follow(waiting, dead=True)
    if live := [edge for edge in edges if edge not in set(over)]:
        yield from _follow(live)
    return followed


def give_up(ids: Collection[JobId]) -> Operation[None]:
    """Untie the followers of parents that are gone or will not be replayed; a worker's loop resolves them."""
    if ids:
        yield Statement("untie_followers", {"ids": as_json(sorted(ids))})


def forget(ids: Collection[JobId]) -> Operation[None]:
    """Remove the edges of jobs that were removed; to be called after that, in the same transaction."""
    if ids:
        yield from give_up(ids)
        yield Statement("forget_followers", {"ids": as_json(sorted(ids))})


def hand_over(job_id: JobId, successor_id: JobId) -> Operation[None]:
    """Make the jobs that still wait for a job wait for the job that replaces it."""
    yield Statement("hand_over_followers", {"id": job_id, "successor": successor_id})


def _find(ids: Sequence[JobId]) -> Operation[list[ParentJob]]:
    rows = yield Statement("find_parents", {"ids": as_json(ids)})
    return [
        ParentJob(job_id, org, JobState(state), kind, bool(final)) for job_id, org, state, kind, final in rows
    ]


def _check_parent(
    new: NewJob, parent: JobId, place: int | None, jobs: Sequence[NewJob], found: Mapping[JobId, ParentJob]
) -> None:
    if place is not None:
        if jobs[place].org_id != new.org_id:
            raise InvalidJob(
                f"a job of org {new.org_id!r} would wait for a job of org {jobs[place].org_id!r}; "
                "make a flow for each org"
            )
    elif parent not in found or found[parent].org_id != new.org_id:
        # The same answer as for a job that never existed, so that nothing leaks.
        raise JobNotFound(
            f"no job {parent}, for which {new.job_type} should wait; it was never enqueued here, "
            "or has been removed"
        )


def _is_met(new: NewJob, parent: ParentJob) -> bool:
    return parent.state in ENDED and judge(new.after_needs, new.after_failure, parent.state) == "met"


def _edges(
    new: NewJob,
    job_id: JobId,
    prepared: Prepared,
    places: Mapping[JobId, int],
    answers: Sequence[Enqueued],
) -> Iterator[tuple[Edge, str | None, bool]]:
    """Return the edges of a job, each once, with the parent's state if resolved, and whether it is tied."""
    seen = {job_id}
    for wanted in new.after:
        place = places.get(wanted)
        # A parent from this call may turn out to be the job that held its key.
        parent = wanted if place is None else answers[place].id
        if parent in seen:
            continue
        seen.add(parent)
        known = prepared.parents.get(wanted)
        met = known is not None and _is_met(new, known)
        tied = met or (place is not None and answers[place].created)
        edge = Edge(job_id, parent, new.org_id, new.after_needs, new.after_failure)
        yield edge, str(known.state) if met and known is not None else None, tied


def _columns(edge: Edge) -> tuple[Scalar, ...]:
    return edge.job_id, edge.parent_id, edge.org_id, edge.needs, edge.on_failure


def _page(parents: Iterable[JobId], cursor: tuple[JobId, JobId]) -> Operation[list[Edge]]:
    params: dict[str, Scalar] = {"ids": as_json(sorted(parents)), "limit": _AT_ONCE}
    rows = yield Statement("read_followers", {**params, "parent": cursor[0], "job": cursor[1]})
    return [Edge(*row) for row in rows]


def _verdict(edge: Edge, parent: ParentJob) -> str:
    return judge(edge.needs, edge.on_failure, parent.state, final=parent.final)


def _follow(edges: Sequence[Edge], *, own: bool = False, dead: bool = False) -> Operation[None]:
    """Mark parents so that they report their end, and tie the edges of those that were marked."""
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


def _resolve(edges: Sequence[Edge], parents: Mapping[JobId, ParentJob]) -> Operation[Followed]:
    """Resolve edges whose parent has ended, and release or cancel their followers."""
    waiting, held = yield from _lock({edge.job_id for edge in edges})
    busy = {edge.parent_id for edge in edges if edge.job_id in held}
    # An edge written for one org must not move the jobs of another org.
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
    broken: dict[JobId, list[ParentJob]] = {}
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
    """Lock followers that still wait; return those locked, and those that another process holds."""
    rows = yield Statement("lock_followers", {"ids": as_json(sorted(ids))})
    return {row[0]: row[:-1] for row in rows if not row[-1]}, {row[0] for row in rows if row[-1]}


def _lower(counts: Mapping[JobId, int]) -> Operation[Followed]:
    # They were stored in this transaction: no other process can hold one.
    waiting, _ = yield from _lock(counts.keys())
    return (yield from _release(counts, waiting))


def _release(met: Mapping[JobId, int], waiting: Mapping[JobId, Row]) -> Operation[Followed]:
    """Lower the count of parents for which followers wait; a follower that waits for none becomes ready."""
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


def _cancel(broken: Mapping[JobId, Sequence[ParentJob]]) -> Operation[Followed]:
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
