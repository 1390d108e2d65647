"""Facts for the rules: nothing is wrong unless a test says so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from onward.core.upkeep.diagnosis import Finding
from onward.core.upkeep.facts import Facts, QueueSeen, WorkerSeen

__all__ = ["HOUR", "MINUTE", "NOW", "SECOND", "a_tick", "a_worker", "codes", "facts", "of", "waiting"]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def a_worker(name: str = "w", seen: timedelta = SECOND, **about: Any) -> WorkerSeen:
    """A worker that was seen a moment ago, with a lease of 30 s."""
    at = NOW - seen
    told: dict[str, Any] = {
        "id": name, "concurrency": 2, "started_at": at - MINUTE, "seen_at": at,
        "lease_until": at + 30 * SECOND,
    }  # fmt: skip
    return WorkerSeen(**(told | about))


def a_tick(ago: timedelta, name: str = "t") -> WorkerSeen:
    """A tick that came, worked for a second and ended."""
    ended = NOW - ago
    return a_worker(
        name, kind="tick", started_at=ended - SECOND, seen_at=ended, lease_until=ended, lost_at=ended
    )


def waiting(queue: str = "q:a", jobs: int = 3, since: timedelta = SECOND) -> QueueSeen:
    """A queue whose oldest ready job is due for so long."""
    return QueueSeen(queue, jobs, NOW - since)


def facts(**known: Any) -> Facts:
    """One worker lives, and nothing waits."""
    well: dict[str, Any] = {"now": NOW, "here": NOW, "workers": [a_worker()]}
    return Facts(**(well | known))


def codes(findings: Iterable[Finding]) -> set[str]:
    """Name what was found wrong."""
    return {finding.code for finding in findings if finding.severity != "ok"}


def of(findings: Iterable[Finding], code: str) -> Finding:
    """Give the one finding of a code."""
    [found] = [finding for finding in findings if finding.code == code]
    return found
