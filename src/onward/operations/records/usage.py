"""What runs have used and cost: written with their ends, summed in reports, charged to budgets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from itertools import islice
from typing import get_args

from onward.core.bulk import Bulk, Changed
from onward.core.inputs.checks import check_kind, whole_number, zoned
from onward.core.inputs.fields import LONGEST, check_reason, check_text, check_texts
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import instant, micros
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_cursor
from onward.core.records.usage import Budget, Group, Period, UsageEvent, UsageTotal
from onward.core.work.lifecycle import End
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

METERED = ("id", "lease", "ran", "unit", "amount", "cost")
SPENT = ("org_id", "cost")

_GROUPS: tuple[Group, ...] = get_args(Group)
_MOST_ENDS = 500
_REPORT, _PRUNE, _BUDGETS = "usage.report", "usage.prune", "usage.budgets"
MOST_PRUNED = 100_000
MOST_MICROS = 9 * 10**18


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
            costs[org_id] = min(costs.get(org_id, 0) + cost, MOST_MICROS)
    return costs


def spend(costs: dict[str, int]) -> Operation[frozenset[str]]:
    """Charge costs to the budgets of their orgs; return the orgs that have nothing left."""
    spent = Rows.of(SPENT, list(costs.items()))
    rows = yield Statement("spend_budgets", {"spent": spent})
    return frozenset(org_id for (org_id,) in rows)


def events_of(job_id: JobId) -> Operation[Page[UsageEvent]]:
    """Return what the runs of a job have used, oldest run first."""
    rows = yield Statement("list_usage", {"id": job_id})
    return Page(
        [
            UsageEvent(found, lease, attempt, unit, amount, cost, instant(at), *rest)
            for found, lease, attempt, unit, amount, cost, at, *rest in rows
        ]
    )


def report(
    by: Sequence[Group],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 1000,
    cursor: Cursor | None = None,
) -> Operation[Page[UsageTotal]]:
    """Return the sums by these groups, from `since` to before `until`; the highest cost first.

    The sums have no index, so a page skips as many lines as the pages before it had.
    """
    groups = _checked_groups(by)
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [skip] = [0] if cursor is None else read_cursor(_REPORT, cursor, int)
    rows = yield Statement(
        "report_usage",
        {
            **{f"by_{group}": int(group in groups) for group in _GROUPS},
            "since": None if since is None else micros(zoned("since", since)),
            "until": None if until is None else micros(zoned("until", until)),
            "limit": limit + 1,
            "skip": max(0, skip),
        },
    )
    totals = [_total(row, summed="unit" in groups) for row in rows[:limit]]
    return Page(totals, make_cursor(_REPORT, skip + limit) if len(rows) > limit else None)


def prune(*, before: datetime, limit: int = 10_000, cursor: Cursor | None = None) -> Operation[Bulk]:
    """Delete at most `limit` rows of usage from before an instant, oldest first."""
    whole_number("limit", limit, 1, MOST_PRUNED)
    [after] = [0] if cursor is None else read_cursor(_PRUNE, cursor, int)
    bounds = {"after": after, "before": micros(zoned("before", before))}
    rows = yield Statement("prune_usage", {**bounds, "limit": limit})
    last = max((at for (at,) in rows), default=0)
    more = make_cursor(_PRUNE, last) if len(rows) == limit else None
    return Bulk(found=len(rows), done=len(rows), next_cursor=more)


def set_budget(
    org_id: str, *, limit_micros: int, period: Period, reason: str | None = None
) -> Operation[Budget]:
    """Set how much an org may spend; a budget with the same period keeps what was spent in it."""
    whole_number("limit_micros", limit_micros, 1, MOST_MICROS)
    if period not in get_args(Period):
        raise InvalidSetting(f"period is {period!r:.80}; give 'day', 'month' or 'total'")
    reason = None if reason is None else check_reason(reason)
    about = _described("budget.set", org_id, reason, limit_micros=limit_micros, period=period)
    params = {"limit": limit_micros, "period": period, "reason": reason}
    [row] = yield Statement("set_budget", {**about, **params})
    return _budget(row)


def remove_budget(org_id: str, *, reason: str | None = None) -> Operation[Changed]:
    """Let an org spend without limit; unchanged if it had no budget."""
    reason = None if reason is None else check_reason(reason)
    about = _described("budget.removed", org_id, reason)
    return Changed(bool((yield Statement("remove_budget", {**about}))))


def budgets(
    org_id: str | None = None, *, limit: int = 50, cursor: Cursor | None = None
) -> Operation[Page[Budget]]:
    """Return a page of the budgets, ordered by org, or the budget of one org."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    check_texts({"org_id": org_id})
    [after] = [None] if cursor is None else read_cursor(_BUDGETS, cursor, str)
    rows = yield Statement("list_budgets", {"org_id": org_id, "after": after, "limit": limit + 1})
    found = [_budget(row) for row in rows[:limit]]
    return Page(found, make_cursor(_BUDGETS, found[-1].org_id) if len(rows) > limit else None)


def _checked_groups(by: Sequence[Group]) -> Sequence[Group]:
    advice = f"give some of {', '.join(_GROUPS)}, such as by=('org', 'day')"
    check_kind("by", by, list | tuple, advice)
    for group in by:
        if group not in _GROUPS:
            raise InvalidSetting(f"by has {group!r:.80}; {advice}")
    return by


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
