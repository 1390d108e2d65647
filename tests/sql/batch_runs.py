"""The operations of batches, and those that cancel many jobs, with the rows that each is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from onward.core.flows.batch import NewBatch
from onward.core.flows.flow import Tie
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import COLUMNS, JobState, NewJob, micros
from onward.operations.flows import batch_create, batches
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.jobs import cancel, enqueue
from onward.operations.statement import Operation

__all__ = ["BATCH_RUNS"]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID, OTHER = first_id_at(NOW), first_id_at(NOW + timedelta(seconds=1))
NEW = NewBatch(
    id=ID,
    origin=NewJob(job_type="batch"),
    name="n",
    callbacks={"on_success": NewJob(job_type="t", key="k")},
    callback_ids={"on_success": OTHER},
)
STORED = '{"on_complete":{"id":"x","payload":"{}","job_type":"t"}}'
BATCH = (ID, None, "n", 1, 1, None, None, None, None, None, None, STORED, 1, 0, 0)
ENDED = PendingEnd(ID, JobState.DEAD, "failed", Tie.BATCHED, "t", None, OTHER, None, None, 1, NOW)
OPEN, CLOSED = (ID, None, None, None, None), (ID, None, 1, None, None)
JOB = tuple(
    {"int": 1, "time": micros(NOW), "json": "{}", "id": ID, "text": "x", "bool": 0}[kind]
    if name not in {"state", "progress"}
    else {"state": "queued"}.get(name)
    for name, kind in COLUMNS.items()
)


SUBJECT, WHERE = cancel.of_subject("s"), cancel.of_filter(JobFilter(job_type="t"))
OF_BATCH = cancel.of_batch(ID)

BATCH_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "open a batch": (partial(batch_create.open_batch, NEW), [[(ID,)]]),
    "enqueue a batch": (
        partial(batch_create.enqueue_batch, NEW, [NewJob(job_type="t")], [OTHER]),
        [[(ID,)], []],
    ),
    "enqueue an empty batch": (
        partial(batch_create.enqueue_batch, NEW, [], []),
        [[(ID,)], [(ID,)], [(ID,)], [(ID,)], [(ID, 0, 0, 0, STORED)], []],
    ),
    "join an open batch": (
        partial(enqueue.enqueue, NewJob(job_type="t", batch_id=ID), OTHER),
        [[OPEN], []],
    ),
    "join a closed batch": (
        partial(enqueue.enqueue, NewJob(job_type="t", batch_id=ID, parent_id=OTHER), OTHER),
        [[CLOSED], [(OTHER, ID)], []],
    ),
    "close a batch": (partial(batches.close, ID), [[(ID,)], []]),
    "count ended jobs in batches": (partial(batches.count_ends, [ENDED]), [[(OTHER,)], []]),
    "get a batch": (partial(batches.get_one, ID), [[(*BATCH, "queued", 0, 1)]]),
    "list batches": (batches.list_batches, [[(ID,)], [(*BATCH, None, None, None)]]),
    "jobs of a batch": (partial(batches.list_jobs, ID), [[JOB]]),
    "pick by a filter": (partial(cancel.pick, WHERE, None, 1), [[(ID,)]]),
    "pick by a subject": (partial(cancel.pick, SUBJECT, None, 1), [[(ID,)]]),
    "pick of a batch": (partial(cancel.pick, OF_BATCH, None, 1), [[(ID,)]]),
    "refuse more": (partial(cancel.refuse_more, OF_BATCH, ID), [[("o",)]]),
    "find a flow": (partial(cancel.find_flow, ID), [[(OTHER,)], [], [(ID,), (OTHER,)]]),
    "note a request": (partial(cancel.note, SUBJECT, "r", 1), [[("jobs.cancel_requested",)]]),
    "cancel a page": (partial(cancel.stop, [ID], reason="r"), [[(ID, "cancelled", 0, None)]]),
}
