"""Leadership: one worker at a time holds a row, whose term runs out by the database's clock."""

from __future__ import annotations

from datetime import timedelta

from onward.core.inputs.checks import span
from onward.core.inputs.fields import LONGEST, check_text
from onward.operations.statement import Operation, Statement

_MICROSECOND = timedelta(microseconds=1)
_SHORTEST = timedelta(milliseconds=1)


def lead(name: str, worker_id: str, *, ttl: timedelta) -> Operation[bool]:
    """Take the lead, or keep it; False while another worker has it.

    Writes only for the leader, and only in the second half of its term.
    """
    check_text("name", name, longest=LONGEST["queue"])
    check_text("worker_id", worker_id, longest=LONGEST["worker_id"])
    rows = yield Statement(
        "lead",
        {"name": name, "worker": worker_id, "ttl": span("ttl", ttl, least=_SHORTEST) // _MICROSECOND},
    )
    return bool(rows)


def abdicate(worker_id: str) -> Operation[frozenset[str]]:
    """End every lead of a worker, so that others need not wait for its term to end; return their names."""
    rows = yield Statement("abdicate", {"worker": worker_id})
    return frozenset(name for (name,) in rows)
