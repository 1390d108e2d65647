"""Circuit breakers in the database: all workers count together, and one at a time probes the provider.

Each change is read, decided by `core.failures.breaker`, and written if no other process changed it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from onward.core.bulk import Changed
from onward.core.failures import breaker as transitions
from onward.core.failures.breaker import DEFAULT_SETTINGS, Answer, Breaker, BreakerSettings, Entry, Standing
from onward.core.inputs.checks import whole_number, zoned
from onward.core.inputs.duration import Duration, duration, written
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.job import instant, micros
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.errors import InvalidSetting, StoreError
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json

# A failed try means that another process succeeded, so this many failures in a row do not happen.
_MOST_TRIES = 200
_NONE = timedelta()

T = TypeVar("T")
Change = Callable[[Breaker, datetime], tuple[T, Breaker]]


def get_breaker(name: str) -> Operation[Breaker]:
    """Read a breaker; an unknown one is closed."""
    _check_name(name)
    at, _, breaker = yield from _read(name)
    return breaker.seen_at(at)


def list_breakers(*, limit: int = MOST_PER_PAGE, cursor: Cursor | None = None) -> Operation[Page[Breaker]]:
    """Read a page of the breakers of providers that have ever pushed back or been opened.

    Open ones come first, then those that count failures, then the others, each by name.
    """
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    rank, name = read_cursor("breakers", cursor, int, str) if cursor is not None else (-1, "")
    place: dict[str, Scalar] = {"after_rank": rank, "after_name": name}
    page = cut(
        "breakers",
        (yield Statement("list_breakers", {**place, "limit": limit + 1})),
        limit,
        lambda row: (row[1], row[2]),
    )
    return Page([_breaker(row[2:]).seen_at(instant(row[0])) for row in page], page.next_cursor)


def ask(name: str, probe: str, settings: BreakerSettings = DEFAULT_SETTINGS) -> Operation[Standing]:
    """Ask whether to call a provider; `probe` identifies the probe that the worker may be granted."""
    _check_name(name)
    check_text("probe", probe, longest=LONGEST["org_id"])

    def change(breaker: Breaker, at: datetime) -> tuple[tuple[Entry, datetime], Breaker]:
        entry, after = transitions.ask(breaker, probe, settings, at)
        return (entry, at), after

    (entry, at), breaker = yield from _change(name, change)
    return _standing(entry, breaker, at)


def answered(
    name: str, probe: str | None, answer: Answer, settings: BreakerSettings = DEFAULT_SETTINGS
) -> Operation[Standing]:
    """Count what a call revealed about its provider; return the state of the breaker."""
    _check_name(name)

    def change(breaker: Breaker, at: datetime) -> tuple[datetime, Breaker]:
        return at, transitions.answered(breaker, probe, answer, settings, at)

    at, breaker = yield from _change(name, change)
    entry: Entry = "go" if breaker.clean else "held" if breaker.holds_at(at) else "wait"
    return _standing(entry, breaker, at)


def open_breaker(
    name: str, *, reason: str, for_: Duration | None = None, until: datetime | None = None
) -> Operation[Breaker]:
    """Hold the jobs of a provider until an operator closes its breaker, or for a time."""
    _check_name(name)
    reason = check_reason(reason)
    if for_ is not None and until is not None:
        raise InvalidSetting("for_ and until are both set; give one of them")
    span = None if for_ is None else duration("for_", for_)
    if span is not None and not _NONE < span <= timedelta(days=36_525):
        raise InvalidSetting(f"for_ is {written(for_)}; give a duration above zero, such as 10m")
    end = None if until is None else zoned("until", until)

    def change(breaker: Breaker, at: datetime) -> tuple[datetime, Breaker]:
        if end is not None and end <= at:
            raise InvalidSetting(f"until is {end.isoformat()}, which is in the past; give a later time")
        after = transitions.opened(breaker, at + span if span is not None else end, reason, at)
        return at, after

    at, breaker = yield from _change(name, change, event="breaker.opened", reason=reason)
    return breaker.seen_at(at)


def close_breaker(name: str, *, reason: str) -> Operation[Changed]:
    """Let the jobs of a provider run again, one at first; nothing changes if none was held or counted."""
    _check_name(name)
    reason = check_reason(reason)

    def change(breaker: Breaker, _at: datetime) -> tuple[bool, Breaker]:
        return not breaker.clean, transitions.closed(breaker)

    changed, _ = yield from _change(name, change, event="breaker.closed", reason=reason)
    return Changed(changed)


def _change(
    name: str, change: Change[T], *, event: str | None = None, reason: str | None = None
) -> Operation[tuple[T, Breaker]]:
    """Read, decide and write; repeat if another process was first. An unchanged breaker is not written."""
    for _ in range(_MOST_TRIES):
        at, version, before = yield from _read(name)
        answer, after = change(before, at)
        if after == before:
            return answer, before
        audited = event or _event(before, after)
        params = {
            **_columns(after),
            "version": version,
            "event": audited,
            "detail": None if audited is None else _detail(before, after, reason),
        }
        if event is None:
            # The operator stays the actor of the breaker, whatever a worker counts meanwhile.
            params |= {"actor_type": after.actor_type, "actor_id": after.actor_id}
        rows = yield Statement("put_breaker", params)
        if rows:
            return answer, _breaker(rows[0])
    raise StoreError(f"the breaker {name!r} is changed by other processes too often; try again")


def _read(name: str) -> Operation[tuple[datetime, int, Breaker]]:
    [row] = yield Statement("get_breaker", {"name": name})
    at, version, *columns = row
    return instant(at), version or 0, Breaker(name=name) if version is None else _breaker(columns)


def _event(before: Breaker, after: Breaker) -> str | None:
    """Return the audit event of a change: only opening and closing have one, not each probe."""
    if (before.state == "closed") == (after.state == "closed"):
        return None
    return "breaker.closed" if after.state == "closed" else "breaker.opened"


def _detail(before: Breaker, after: Breaker, reason: str | None) -> str:
    reason = reason or after.reason or "the provider has answered well"
    until = None if after.until is None else after.until.isoformat()
    since = None if after.state != "closed" or before.opened_at is None else before.opened_at.isoformat()
    detail = {"name": after.name, "reason": reason, "until": until, "opened_at": since}
    return as_json({key: value for key, value in detail.items() if value is not None})


def _columns(breaker: Breaker) -> dict[str, Scalar]:
    return {
        "name": breaker.name,
        "state": "closed" if breaker.state == "closed" else "open",
        "failures": breaker.failures,
        "failed_jobs": " ".join(breaker.failed_jobs),
        "counted_from": _micros(breaker.counted_from),
        "opened_at": _micros(breaker.opened_at),
        "until": _micros(breaker.until),
        "holds": breaker.holds,
        "probe": breaker.probe,
        "probe_until": _micros(breaker.probe_until),
        "forced": int(breaker.forced),
        "reason": breaker.reason,
    }


def _breaker(row: Row) -> Breaker:
    name, state, failures, failed_jobs, counted_from, opened_at, until, holds, *rest = row
    probe, probe_until, forced, reason, actor_type, actor_id = rest
    return Breaker(
        name=name,
        state=state,
        failures=failures,
        failed_jobs=tuple(failed_jobs.split()),
        counted_from=_instant(counted_from),
        opened_at=_instant(opened_at),
        until=_instant(until),
        holds=holds,
        probe=probe,
        probe_until=_instant(probe_until),
        forced=bool(forced),
        reason=reason,
        actor_type=actor_type,
        actor_id=actor_id,
    )


def _standing(entry: Entry, breaker: Breaker, at: datetime) -> Standing:
    if entry != "held":
        return Standing(entry, breaker.seen_at(at))
    return Standing(entry, breaker.seen_at(at), None if breaker.until is None else breaker.until - at)


def _micros(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _instant(at: Any) -> datetime | None:
    return None if at is None else instant(at)


def _check_name(name: str) -> None:
    check_text("name", name, longest=LONGEST["queue"])
