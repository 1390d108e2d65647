"""The operations of flows, and the follow-up work of ends, with the rows that each is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from onward.core.flows.flow import Tie
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import COLUMNS, JobState, NewJob, micros
from onward.operations.flows import after_end, followers, graph
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.jobs import enqueue
from onward.operations.statement import Operation

__all__ = ["FLOW_RUNS", "FLOW_SETS"]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID, OTHER = first_id_at(NOW), first_id_at(NOW + timedelta(seconds=1))

PARENT = (OTHER, "o", "running", "t", 0)
WAITING = (ID, "o", 1, 1, None, 2, 0)
EDGE_ROW = (ID, OTHER, "o", "succeeded", "cancel")
EDGE = followers.Edge(ID, OTHER, "o", "succeeded", "cancel")
ENDED_PARENT = PendingEnd(
    OTHER, JobState.SUCCEEDED, "succeeded", Tie.FOLLOWED, "t", "o", None, None, None, 1, NOW
)
STORED = tuple(
    {"int": 1, "time": micros(NOW), "json": "{}", "id": ID, "text": "x", "bool": 0}[kind]
    if name not in {"state", "progress"}
    else {"state": "queued"}.get(name)
    for name, kind in COLUMNS.items()
)

FLOW_SETS = {
    "edges": followers.EDGES,
    "tied": followers.TIED,
    "resolved": followers.RESOLVED,
    "released": followers.RELEASED,
    "broken": followers.BROKEN,
}

FLOW_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[tuple[Any, ...]]]]] = {
    "find pending ends": (after_end.find_pending_ends, [[(ID,)]]),
    "follow up ends": (
        partial(after_end.follow_up_ends, [ID]),
        [[(ID, "succeeded", "succeeded", 0, "t", None, None, None, None, 1, 1)], [(ID,)]],
    ),
    "enqueue a follower": (
        partial(enqueue.enqueue, NewJob(job_type="t", org_id="o", after=(OTHER,)), ID),
        [[PARENT], [(ID, ID, "blocked", 1)], [], [PARENT], [(OTHER,)], []],
    ),
    "find what is not tied": (followers.find_untied, [[EDGE_ROW]]),
    "tie to the dead": (
        partial(after_end.tie_left, [EDGE, followers.Edge(ID, OTHER, "o", "succeeded", "wait")]),
        [[(OTHER, "o", "dead", "t", 0)], [WAITING], [(ID, OTHER)], [(ID, 1)], [(OTHER,)], []],
    ),
    "release followers": (
        partial(followers.advance_followers, [ENDED_PARENT]),
        [[EDGE_ROW], [WAITING], [(ID, OTHER)], [(ID,)]],
    ),
    "parents": (partial(graph.parents, ID), [[(OTHER,)], [STORED]]),
    "all parents": (partial(graph.all_parents, ID), [[(OTHER,)], [STORED]]),
    "followers": (partial(graph.followers, ID), [[(OTHER,)], [STORED]]),
    "links": (partial(graph.links_of, [ID]), [[(ID, OTHER, "succeeded", "cancel", None)]]),
    "children": (partial(graph.children, ID), [[(OTHER,)], [STORED]]),
}
