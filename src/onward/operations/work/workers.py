"""Read the workers that have registered, live or gone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TypeVar

from onward.core.inputs.checks import whole_number
from onward.core.jobs.job import Job, instant, micros
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.policy.application import DeclaredTypes, name_for
from onward.core.upkeep.facts import WorkerSeen
from onward.errors import InvalidSetting, WorkerNotFound
from onward.operations.statement import Operation, Row, Statement

T = TypeVar("T")

_FIRST_ID = "00000000-0000-0000-0000-000000000000"


def list_workers(limit: int, cursor: Cursor | None = None) -> Operation[Page[WorkerSeen]]:
    """Read a page of the workers: the live ones first, then those that were seen last."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    is_live, seen_at, last = (2, 0, "") if cursor is None else read_cursor("workers", cursor, int, int, str)
    params = {"is_live": is_live, "seen_at": seen_at, "id": last, "limit": limit + 1}
    rows = yield Statement("list_workers", params)
    return cut("workers", [_worker(row) for row in rows], limit, _position)


def list_running(worker_id: str, limit: int, cursor: Cursor | None = None) -> Operation[Page[Job]]:
    """Read a page of the jobs that a worker runs now, oldest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = [_FIRST_ID] if cursor is None else read_cursor("running", cursor, str)
    rows = yield Statement("list_running_jobs", {"worker": worker_id, "after": after, "limit": limit + 1})
    return cut("running", Job.from_rows(rows), limit, lambda job: (job.id,))


def get_worker(worker_id: str) -> Operation[WorkerSeen]:
    """Read one worker; raises WorkerNotFound."""
    rows = yield Statement("get_worker", {"worker": worker_id})
    if not rows:
        raise WorkerNotFound(f"no worker {worker_id!r:.80}; workers.list() returns the known workers")
    return _worker(rows[0])


def check_declared(worker_id: str, declared: DeclaredTypes) -> Operation[list[WorkerSeen]]:
    """Raise InvalidSetting if a live worker of another application declares a job type otherwise.

    Of two workers that start at once, only the later one is refused. Return a worker of each application that
    declares one of the job types in the same way.
    """
    sharing: dict[str, WorkerSeen] = {}
    for row in (yield Statement("list_earlier_workers", {"worker": worker_id})):
        other = _worker(row)
        if other.application is None:
            continue
        theirs_declared = DeclaredTypes(other.application, other.signatures)
        clashes = declared.clashes(theirs_declared)
        if clashes:
            mine, theirs = declared.application, other.application
            raise InvalidSetting(
                f"the job type {clashes[0]!r} of {mine} has another signature in {theirs}, whose worker "
                f"{other.id} runs on the same database, so each would run the other's jobs; give one of the "
                f"two applications a name, as in Onward(name={name_for(mine)!r}). If {theirs} is an old "
                f"version of {mine}, stop its workers first"
            )
        if declared.shared(theirs_declared):
            sharing.setdefault(other.application, other)
    return list(sharing.values())


def type_unknown_for(
    job_type: str, *, org_id: str | None = None, project_id: str | None = None
) -> Operation[timedelta | None]:
    """Return for how long no live worker has known a job type, zero if one does; None if none ever did.

    Of the workers of one org or project only those are asked that may run such a job of `org_id` and
    `project_id`.
    """
    of_job = {"org_id": org_id, "project_id": project_id}
    rows = yield Statement("find_last_knower", {"job_type": job_type, **of_job})
    [(micros_ago,)] = rows
    return None if micros_ago is None else timedelta(microseconds=micros_ago)


def _position(worker: WorkerSeen) -> tuple[int, int, str]:
    return int(worker.lost_at is None), micros(worker.seen_at), worker.id


def _worker(row: Row) -> WorkerSeen:
    worker_id, org_id, project_id, text, started, seen, until, lost = row
    info = decode(text)

    def reported(name: str, kind: type[T]) -> T | None:
        # A worker of another version, or of another make, may report anything here.
        value = info.get(name) if isinstance(info, Mapping) else None
        return value if isinstance(value, kind) else None

    queues, providers = reported("queues", dict), reported("providers", dict)
    signatures = reported("signatures", dict)
    types, schedules = reported("job_types", list), reported("schedules", list)
    return WorkerSeen(
        id=worker_id,
        org_id=org_id,
        project_id=project_id,
        kind=reported("kind", str) or "worker",
        host=reported("host", str),
        pid=reported("pid", int),
        concurrency=reported("concurrency", int),
        queues=None
        if queues is None
        else {name: most if isinstance(most, int) else None for name, most in queues.items()},
        job_types=None if types is None else frozenset(map(str, types)),
        providers={name: one for name, one in (providers or {}).items() if isinstance(one, str)},
        application=reported("application", str),
        signatures={name: text for name, text in (signatures or {}).items() if isinstance(text, str)},
        schedules=None if schedules is None else frozenset(map(str, schedules)),
        started_at=instant(started),
        seen_at=instant(seen),
        lease_until=instant(until),
        lost_at=None if lost is None else instant(lost),
    )
