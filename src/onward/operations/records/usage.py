"""What runs have used and cost: written with their ends, summed in reports, charged to budgets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from itertools import islice
from typing import get_args

from onward.core.inputs.checks import check_kind, whole, zoned
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import instant, micros
from onward.core.records.usage import Budget, Group, Period, UsageEvent, UsageTotal
from onward.core.work.lifecycle import End
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

Actor = tuple[str | None, str | None]

METERED = ("id", "lease", "ran", "unit", "amount", "cost")
SPENT = ("org_id", "cost")

_GROUPS: tuple[Group, ...] = get_args(Group)
_MOST_ENDS = 500
_MOST_LINES = 100_000
_MOST_MICROS = 9 * 10**18


def record(ends: Collection[End]) -> Operation[dict[str, int]]:
    """Write what runs have used, before their ends and in one transaction with them.

    Return the costs of the orgs that have a budget; pass them to `spend` after the ends are written.
    """
    costs: dict[str, int] = {}
    metered = iter(ends)
    while part := list(islice(metered, _MOST_ENDS)):
        rows = [
            (end.job_id, end.lease, end.ran, used.unit, used.amount, used.cost_micros)
            for end in part
            for used in end.usage
        ]
        found = yield Statement("record_usage", {"metered": Rows.of(METERED, rows)})
        for org_id, cost in found:
            costs[org_id] = min(costs.get(org_id, 0) + cost, _MOST_MICROS)
    return costs


def spend(costs: dict[str, int]) -> Operation[frozenset[str]]:
    """Charge costs to the budgets of their orgs; return the orgs that have nothing left."""
    spent = Rows.of(SPENT, list(costs.items()))
    rows = yield Statement("spend_budgets", {"spent": spent})
    return frozenset(org_id for (org_id,) in rows)


def events_of(job_id: JobId) -> Operation[list[UsageEvent]]:
    """Read what the runs of a job have used, oldest run first."""
    rows = yield Statement("list_usage", {"id": job_id})
    return [
        UsageEvent(found, lease, attempt, unit, amount, cost, instant(at), *rest)
        for found, lease, attempt, unit, amount, cost, at, *rest in rows
    ]


def report(
    by: Sequence[Group],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    org_id: str | None = None,
    limit: int = 1000,
) -> Operation[list[UsageTotal]]:
    """Sum what was used, by these groups, from `since` to before `until`; the highest cost first."""
    groups = _checked_groups(by)
    whole("limit", limit, 1, _MOST_LINES)
    rows = yield Statement(
        "report_usage",
        {
            **{f"by_{group}": int(group in groups) for group in _GROUPS},
            "since": None if since is None else micros(zoned("since", since)),
            "until": None if until is None else micros(zoned("until", until)),
            "org_id": _org(org_id),
            "limit": limit,
        },
    )
    return [_total(row, summed="unit" in groups) for row in rows]


def prune(*, before: datetime, limit: int = 10_000) -> Operation[int]:
    """Delete usage from before an instant, oldest first; return how many rows."""
    whole("limit", limit, 1, _MOST_LINES)
    rows = yield Statement("prune_usage", {"before": micros(zoned("before", before)), "limit": limit})
    return len(rows)


def set_budget(
    org_id: str, *, limit_micros: int, period: Period, reason: str | None = None
) -> Operation[Budget]:
    """Set how much an org may spend; a budget with the same period keeps what was spent in it."""
    whole("limit_micros", limit_micros, 1, _MOST_MICROS)
    if period not in get_args(Period):
        raise InvalidSetting(f"period is {period!r:.80}; give 'day', 'month' or 'total'")
    reason = None if reason is None else check_reason(reason)
    about = _described("budget.set", org_id, reason, limit_micros=limit_micros, period=period)
    asked = {"limit": limit_micros, "period": period, "reason": reason}
    [row] = yield Statement("set_budget", {**about, **asked})
    return _budget(row)


def remove_budget(org_id: str, *, reason: str | None = None) -> Operation[bool]:
    """Let an org spend without limit; False if it had no budget."""
    reason = None if reason is None else check_reason(reason)
    about = _described("budget.removed", org_id, reason)
    return bool((yield Statement("remove_budget", {**about})))


def budgets(org_id: str | None = None, *, limit: int = 1000) -> Operation[list[Budget]]:
    """Read the budgets, ordered by org, or that of one org."""
    whole("limit", limit, 1, _MOST_LINES)
    rows = yield Statement("list_budgets", {"org_id": _org(org_id), "limit": limit})
    return [_budget(row) for row in rows]


def _checked_groups(by: Sequence[Group]) -> Sequence[Group]:
    advice = f"give some of {', '.join(_GROUPS)}, such as by=('org', 'day')"
    check_kind("by", by, list | tuple, advice)
    for group in by:
        if group not in _GROUPS:
            raise InvalidSetting(f"by has {group!r:.80}; {advice}")
    return by


def _org(org_id: str | None) -> str | None:
    if org_id is not None:
        check_text("org_id", org_id, longest=LONGEST["org_id"])
    return org_id


def _total(row: Row, *, summed: bool) -> UsageTotal:
    org_id, job_type, queue, day, unit, runs, amount, cost = row
    return UsageTotal(
        org_id=org_id,
        job_type=job_type,
        queue=queue,
        day=None if day is None else date.fromisoformat(day),
        unit=unit,
        runs=runs,
        amount=amount if summed else None,
        cost_micros=cost,
    )


def _budget(row: Row) -> Budget:
    org_id, most, period, started, spent, spent_at, set_at, *rest = row
    since = None if spent_at is None else instant(spent_at)
    return Budget(org_id, most, period, instant(started), spent, since, instant(set_at), *rest)


def _described(event: str, org_id: str, reason: str | None, **detail: Scalar) -> dict[str, Scalar]:
    """Return the org whose budget is changed, and the change's line in the audit."""
    check_text("org_id", org_id, longest=LONGEST["org_id"])
    if reason is not None:
        detail = {**detail, "reason": reason}
    return {"org_id": org_id, "event": event, "detail": as_json(detail)}
