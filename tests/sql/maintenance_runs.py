"""The operations of maintenance, with the rows that each is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from onward.core.ids import first_id_at
from onward.core.job import micros
from onward.core.rules import Rules
from onward.operations import built_in, maintenance, sizes
from onward.operations.maintenance import KINDS, Page
from onward.operations.statement import Operation

__all__ = ["MAINTENANCE_RUNS"]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(datetime(2025, 1, 2, tzinfo=UTC))
REAL, DRY = Page(NOW, limit=1), Page(NOW, limit=1, dry_run=True)
JOB = (ID, "succeeded", "default", "q", micros(datetime(2025, 1, 2, tzinfo=UTC)))
SLOT = ("", "", "k")
RUN = (1, "s", 1, "slot")


def both(kind: str, *answers: Sequence[Any]) -> dict[str, tuple[Callable[[], Operation[Any]], list[Any]]]:
    """A kind that is looked for and removed by as many statements."""
    return {
        f"prune old {kind}": (partial(KINDS[kind], Rules(), REAL), list(answers)),
        f"count old {kind}": (partial(KINDS[kind], Rules(), DRY), list(answers)),
    }


MAINTENANCE_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "clock": (maintenance.clock, [[(1,)]]),
    "prune jobs": (partial(KINDS["jobs"], Rules(), REAL), [[JOB], [(ID, "succeeded")], [(ID,)]]),
    "count jobs to prune": (partial(KINDS["jobs"], Rules(), DRY), [[JOB], [("succeeded",)]]),
    "count keys to prune": (partial(KINDS["keys"], Rules(), DRY), [[SLOT], [("k",)]]),
    **both("usage", [(ID, 1, "u")], [("u",)]),
    **both("workers", [("w",)], [("w",)]),
    **both("batches", [(ID,)], [(ID,)]),
    **both("schedule_runs", [RUN], [("s",)]),
    "prune signals and waits": (partial(KINDS["signals"], Rules(), REAL), [[(ID,)], [(ID,)]]),
    "count signals and waits to prune": (partial(KINDS["signals"], Rules(), DRY), [[(ID,)], [(ID,)]]),
    "count artifacts to prune": (partial(maintenance.count_expired, DRY), [[(ID,)]]),
    "count audit to prune": (partial(maintenance.count_audit, {NOW: ["default"]}, ["default"], 1), [[(1,)]]),
    "read the place": (maintenance.read_place, [[("{}",)]]),
    "keep the place": (partial(maintenance.keep_place, {"jobs": ID}), [[("prune_place",)]]),
    "sizes": (sizes.inspect_sizes, [[(1, 0, None, None)], [], []]),
    "partitions": (sizes.tend_partitions, [[("made", "ended_202601", "0")]]),
    "declare what is there": (
        built_in.declare, [[("onward.prune", 3_600_000_000), ("onward.checkup", 86_400_000_000)]],
    ),
}  # fmt: skip
