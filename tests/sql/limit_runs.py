"""Operations on limits, driven with canned rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import micros
from onward.core.limits.limit import Limit
from onward.operations.limits import limit_facts, limits
from onward.operations.statement import Operation

__all__ = ["LIMIT_RUNS", "LIMIT_SETS"]

LIMIT_SETS = {"rooms": limits.ROOM, "lines": limits.ROOM, "paid": limits.PAID, "terms": limits.DECLARED}

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(NOW)
STANDING = ("sync/a", 0, 0, 0, 0, None, '{"concurrency":2,"rate":"1/s"}', None, micros(NOW))
LINE = ("sync/a", 0, 0, 0, 0, None, '{"ordered":true}', None, micros(NOW))
UNKNOWN = ("sync/a", 0, 0, 0, 0, None, None, None, micros(NOW))
LIMIT = ("sync", '{"concurrency":2}', micros(NOW), None, None, None, None, None, 1, 1)

LIMIT_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "admit": (partial(limits.admit, ["sync/a"]), [[("sync/a",)], [STANDING], [("sync/a", "q", 1)], []]),
    "admit in a line": (partial(limits.admit, ["sync/a"]), [[("sync/a",)], [LINE], [("sync/a", "q", 1)]]),
    "find who may be admitted": (limits.find_admissible, [[STANDING]]),
    "forget permits": (limits.forget, [[("sync/a",)]]),
    "declare limits": (partial(limits.declare, {"sync": Limit(1)}), [[]]),
    "list limits": (limits.list_limits, [[LIMIT], [("sync/a", 1, 1)]]),
    "set a limit": (
        partial(limits.override, "sync", concurrency=1, rate=None, burst=None, reason="r"),
        [[LIMIT], [], [("sync",)], [LIMIT], []],
    ),
    "reset a limit": (partial(limits.reset, "sync", reason="r"), [[LIMIT], [], [("sync",)]]),
    "explain a permit": (
        partial(limit_facts.permits_of, ID),
        [[("sync/a", 0)], [STANDING], [(ID, "running", "w")]],
    ),
    "list who waits for permits": (
        limit_facts.permits_awaited,
        [[UNKNOWN], [("sync/a", 1, micros(NOW))]],
    ),
}
