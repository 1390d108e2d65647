"""The policies of queues: what applications declare, and what an operator sets instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from onward.core.bulk import Changed
from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.limits import gcra
from onward.core.limits.bounds import Bound, RateBound, checked_bounds, require_rate
from onward.core.limits.queue_policy import Queue, QueuePolicy
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.upkeep.facts import QueueLoad
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Rows, Statement, as_json

DECLARED = ("name", "settings")

_MICROSECOND = timedelta(microseconds=1)


def declare(policies: Mapping[str, QueuePolicy]) -> Operation[None]:
    """Write what an application declares of its queues; the last declaration of a queue wins."""
    rows = [(name, as_json(policy.stored())) for name, policy in sorted(policies.items())]
    yield Statement("declare_queues", {"declared": Rows.of(DECLARED, rows)})


def list_queues(limit: int = MOST_PER_PAGE, cursor: Cursor | None = None) -> Operation[Page[Queue]]:
    """Read a page of the queues for which something was declared or set, by name."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = [""] if cursor is None else read_cursor("queues", cursor, str)
    rows = yield Statement("list_queues", {"after": after, "limit": limit + 1})
    return cut("queues", [_queue(row) for row in rows], limit, lambda queue: (queue.name,))


def get_queue(name: str) -> Operation[Queue]:
    """Read a queue; one for which nothing was declared or set has an empty policy."""
    _check_name(name)
    rows = yield Statement("get_queue", {"queue": name})
    return _queue(rows[0]) if rows else Queue(name=name, policy=QueuePolicy(), declared=QueuePolicy())


def load_of(name: str) -> Operation[QueueLoad | None]:
    """Return how close a queue is to its bounds; None if it has none."""
    return (yield from _load((yield from get_queue(name))))


def loads_of(names: Collection[str]) -> Operation[dict[str, QueueLoad]]:
    """Return how close each of these queues is to its bounds; a queue without bounds is absent."""
    if not names:
        return {}
    found: dict[str, QueueLoad] = {}
    for queue in (yield from list_queues()):
        if queue.name in names and (load := (yield from _load(queue))):
            found[queue.name] = load
    return found


def _load(queue: Queue) -> Operation[QueueLoad | None]:
    policy, running = queue.policy, 0
    if policy.concurrency is None and policy.rate is None:
        return None
    if policy.concurrency is not None:
        rows = yield Statement("count_running", {"queue": queue.name, "most": policy.concurrency})
        running = rows[0][0]
    return QueueLoad(queue.name, running, policy.concurrency, policy.rate, queue.wait)


def limit_queue(
    name: str,
    *,
    concurrency: Bound | None = None,
    rate: RateBound | None = None,
    burst: int | None = None,
    reason: str,
) -> Operation[Queue]:
    """Set other bounds than the declared ones; bounds that are left out stay as they were set before.

    The caller must run this in one transaction.
    """
    _check_name(name)
    reason = check_reason(reason)
    bounds = checked_bounds(concurrency, rate, burst, lift=True)
    if not bounds:
        raise InvalidSetting("no bound is set; give concurrency=, rate= or burst=")
    before = yield from _locked(name)
    override = {**(before.override or {}), **bounds}
    require_rate(before.declared.overridden(override).rate, burst, f"queue {name!r}")
    return (yield from _put(before, override, "queue.limited", reason=reason))


def reset_queue(name: str, *, reason: str) -> Operation[Changed]:
    """Restore the declared bounds. The caller must run this in one transaction."""
    _check_name(name)
    reason = check_reason(reason)
    before = yield from _locked(name)
    if before.override is None:
        return Changed(changed=False)
    yield from _put(before, None, "queue.reset", reason=reason)
    return Changed(changed=True)


def _locked(name: str) -> Operation[Queue]:
    yield Statement("lock_queue", {"queue": name, "claims": 0})
    return (yield from get_queue(name))


def _put(before: Queue, override: Mapping[str, Any] | None, event: str, *, reason: str) -> Operation[Queue]:
    detail = {"name": before.name, "reason": reason, "before": before.override, "after": override}
    yield Statement(
        "override_queue",
        {
            "queue": before.name,
            "override": None if override is None else as_json(override),
            "reason": None if override is None else reason,
            "event": event,
            "detail": as_json({key: value for key, value in detail.items() if value is not None}),
        },
    )
    return (yield from get_queue(before.name))


def _queue(row: Row) -> Queue:
    name, settings, override, reason, actor_type, actor_id, set_at, paid_at, now = row
    policy = QueuePolicy.read(settings, override)
    wait = 0 if policy.every is None else gcra.wait(paid_at, now, policy.every, policy.at_once)
    return Queue(
        name=name,
        policy=policy,
        declared=QueuePolicy.read(settings, None),
        override=None if override is None else decode(override),
        reason=reason,
        actor_type=actor_type,
        actor_id=actor_id,
        set_at=None if set_at is None else instant(set_at),
        wait=wait * _MICROSECOND,
    )


def _check_name(name: str) -> None:
    check_text("queue", name, longest=LONGEST["queue"])
