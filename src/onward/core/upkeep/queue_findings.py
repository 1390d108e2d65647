"""Findings about queues with a policy: their concurrency is reached, or their rate lets no job start yet."""

from __future__ import annotations

from typing import Any

from onward.core.upkeep.diagnosis import Finding, fine, lasting, quoted, warning
from onward.core.upkeep.facts import QueueLoad, QueueSeen


def waits_for_queue(load: QueueLoad) -> Finding | None:
    """Return the finding for a ready job that waits for its queue's policy; None if it does not."""
    if load.full:
        return fine(
            "queue_full",
            f"its queue runs {load.running} of {load.concurrency}",
            _raise(load.name, "--concurrency N"),
            **_evidence(load),
        )
    if load.wait:
        return fine(
            "queue_rate",
            f"its queue starts {load.rate}; the next may start in {lasting(load.wait)}",
            _raise(load.name, "--rate N/1m"),
            **_evidence(load),
        )
    return None


def queue_bound(queue: QueueSeen, load: QueueLoad, waited: str) -> Finding:
    """Return the finding for a queue whose policy makes its jobs wait."""
    bounds = f"runs {load.running} of {load.concurrency}" if load.full else f"starts {load.rate}"
    return warning(
        "queue_bound",
        f"queue {queue.name} {bounds}; {queue.jobs} jobs wait, the oldest for {waited}",
        _raise(queue.name, "--concurrency N" if load.full else "--rate N/1m"),
        jobs=queue.jobs,
        oldest=queue.oldest,
        **_evidence(load),
    )


def _evidence(load: QueueLoad) -> dict[str, Any]:
    return {
        "queue": load.name,
        "running": load.running,
        "concurrency": load.concurrency,
        "rate": load.rate,
    }


def _raise(queue: str, bound: str) -> str:
    return f"onward queues limit {quoted(queue)} {bound} --reason …"
