"""The gate and the pauses, by which an operator or a caller holds back the claims of all workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from onward.core.bulk import Changed
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.job import instant
from onward.core.limits.pause import Controls, Gate, Pause, Scope, TypeSkip
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json

_FIELDS = {"queue": "queue", "org": "org_id", "job_type": "job_type"}
_GATE = "gate"
_SKIP = "skip"
_EVENTS = {"skip.set": "job_type.skipped", "skip.lifted": "job_type.unskipped"}
_POLICY = "policy"


def pause(scope: Scope, name: str, *, reason: str) -> Operation[Changed]:
    """Stop claims of a queue, an org or a job type, unless it is paused for that reason already.

    Another reason replaces the first one and its actor; the pause still counts from its beginning.
    """
    _check_scope(scope, name)
    return (yield from _set(f"{scope}.paused", name, reason))


def resume(scope: Scope, name: str, *, reason: str | None = None) -> Operation[Changed]:
    """End a pause, if there is one."""
    _check_scope(scope, name)
    return (yield from _lift(f"{scope}.resumed", name, reason))


def close_gate(*, reason: str) -> Operation[Changed]:
    """Stop all claims, unless the gate is closed for that reason already."""
    return (yield from _set(f"{_GATE}.closed", "", reason))


def open_gate(*, reason: str | None = None) -> Operation[Changed]:
    """Let workers claim again."""
    return (yield from _lift(f"{_GATE}.opened", "", reason))


def skip(job_type: str, *, reason: str) -> Operation[Changed]:
    """Let the jobs of a type end as skipped, unless they are skipped for that reason already."""
    _check_scope("job_type", job_type)
    return (yield from _set(f"{_SKIP}.set", job_type, reason))


def unskip(job_type: str, *, reason: str | None = None) -> Operation[Changed]:
    """Let the jobs of a type run again, if they are skipped."""
    _check_scope("job_type", job_type)
    return (yield from _lift(f"{_SKIP}.lifted", job_type, reason))


def controls() -> Operation[Controls]:
    """Read the gate, the pauses, and which orgs have spent their budget."""
    return read_controls((yield Statement("list_controls", {})))


def claim_controls() -> Operation[tuple[Controls, frozenset[str]]]:
    """Read the gate, the pauses, and the queues that have a policy."""
    rows = yield Statement("find_claim_controls", {})
    controls = read_controls([row for row in rows if row[0] != _POLICY])
    return controls, frozenset(row[1] for row in rows if row[0] == _POLICY)


def read_controls(rows: Sequence[Row]) -> Controls:
    """Return the gate and the pauses that these rows describe."""
    gate: Gate | None = None
    pauses: set[Pause] = set()
    skips: set[TypeSkip] = set()
    for scope, name, reason, actor_type, actor_id, set_at in rows:
        if scope == _GATE:
            gate = Gate(reason, actor_type, actor_id, instant(set_at))
        elif scope == _SKIP:
            skips.add(TypeSkip(name, reason, actor_type, actor_id, instant(set_at)))
        else:
            pauses.add(Pause(scope, name, reason, actor_type, actor_id, instant(set_at)))
    return Controls(gate=gate, pauses=frozenset(pauses), skips=frozenset(skips))


def _set(event: str, name: str, reason: str) -> Operation[Changed]:
    reason = check_reason(reason)
    params = {**_described(event, name, reason), "reason": reason}
    return Changed(bool((yield Statement("set_control", params))))


def _lift(event: str, name: str, reason: str | None) -> Operation[Changed]:
    if reason is not None:
        reason = check_reason(reason)
    return Changed(bool((yield Statement("lift_control", _described(event, name, reason)))))


def _described(event: str, name: str, reason: str | None) -> dict[str, Scalar]:
    """Return the parameters of a change, and its line in the audit."""
    scope = event.partition(".")[0]
    detail = {"name": name, "reason": reason}
    return {
        "scope": scope,
        "name": name,
        "event": _EVENTS.get(event, event),
        "job_type": name if scope in {"job_type", _SKIP} else None,
        "org_id": name if scope == "org" else None,
        "detail": as_json({key: value for key, value in detail.items() if value}),
    }


def _check_scope(scope: str, name: str) -> None:
    if scope not in get_args(Scope):
        raise InvalidSetting(f"scope is {scope!r:.80}; give 'queue', 'org' or 'job_type'")
    field = _FIELDS[scope]
    check_text(field, name, longest=LONGEST[field])
