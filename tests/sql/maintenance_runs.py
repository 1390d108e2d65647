"""The operations of maintenance, with the rows that each is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import micros
from onward.core.policy.policies import Policies
from onward.operations.schedules import built_in_schedules
from onward.operations.statement import Operation
from onward.operations.upkeep import prune, table_sizes
from onward.operations.upkeep.prune import KINDS, PruneStep

__all__ = ["MAINTENANCE_RUNS"]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(datetime(2025, 1, 2, tzinfo=UTC))


def real(kind: str) -> PruneStep:
    return PruneStep(kind, NOW, limit=1)


def dry(kind: str) -> PruneStep:
    return PruneStep(kind, NOW, limit=1, dry_run=True)


JOB = (ID, "succeeded", "default", "q", micros(datetime(2025, 1, 2, tzinfo=UTC)))
SLOT = ("", "", "k")
RUN = (1, "s", 1, "occurrence")


def both(kind: str, *answers: Sequence[Any]) -> dict[str, tuple[Callable[[], Operation[Any]], list[Any]]]:
    """A kind that is looked for and removed by as many statements."""
    return {
        f"prune old {kind}": (partial(KINDS[kind], Policies(), real(kind)), list(answers)),
        f"count old {kind}": (partial(KINDS[kind], Policies(), dry(kind)), list(answers)),
    }


MAINTENANCE_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "clock": (prune.clock, [[(1,)]]),
    "prune jobs": (partial(KINDS["jobs"], Policies(), real("jobs")), [[JOB], [(ID, "succeeded")], [(ID,)]]),
    "count jobs to prune": (partial(KINDS["jobs"], Policies(), dry("jobs")), [[JOB], [("succeeded",)]]),
    "count keys to prune": (partial(KINDS["keys"], Policies(), dry("keys")), [[SLOT], [("k",)]]),
    **both("usage", [(ID, 1, "u")], [("u",)]),
    **both("workers", [("w",)], [("w",)]),
    **both("batches", [(ID,)], [(ID,)]),
    **both("schedule_runs", [RUN], [("s",)]),
    "prune signals and waits": (partial(KINDS["signals"], Policies(), real("signals")), [[(ID,)], [(ID,)]]),
    "count signals to prune": (partial(KINDS["signals"], Policies(), dry("signals")), [[(ID,)], [(ID,)]]),
    "count artifacts to prune": (partial(KINDS["artifacts"], Policies(), dry("artifacts")), [[(ID,)]]),
    "count audit to prune": (partial(prune.count_audit, {NOW: ["default"]}, ["default"], 1), [[(1,)]]),
    "read the place": (prune.read_place, [[("x",)]]),
    "keep the place": (partial(prune.keep_place, "x"), [[("prune_place",)]]),
    "sizes": (table_sizes.inspect_sizes, [[(1, 0, None, None)], [], []]),
    "partitions": (table_sizes.tend_partitions, [[("made", "ended_202601", "0")]]),
    "declare what is there": (
        built_in_schedules.declare, [[("onward.prune", 3_600_000_000), ("onward.checkup", 86_400_000_000)]],
    ),
}  # fmt: skip
