"""Limits: which of the jobs that share permits may be ready, and what each limit allows.

A limited job waits as `blocked`, and only `admit` makes it ready. The holders of permits are counted each
time from the jobs themselves, so no permit is ever lost with a worker. The decision is `admission` in
core/limits/admission.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from onward.core.bulk import Changed
from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.limits.admission import LimitStanding, PermitsSeen, Terms
from onward.core.limits.bounds import checked_bounds, require_rate
from onward.core.limits.limit import Limit, name_of, value_of
from onward.core.limits.limit_use import MOST_KEYS, Admitted, FoundKeys, KeySeen, LimitSeen
from onward.core.page import Page
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Rows, Statement, as_json

ROOM = ("limit_key", "jobs")
PAID = ("limit_key", "paid_at")
DECLARED = ("name", "declared")

_MOST_AT_ONCE = 2000
_MOST_FORGOTTEN = 1000
_CAP = 10_000
_TOP = 5


def admit(keys: Collection[str]) -> Operation[Admitted]:
    """Make as many blocked jobs of these keys ready as their limits allow; to be run in one transaction."""
    rows = yield Statement("lock_permits", {"keys": as_json(sorted(set(keys)))})
    if not rows:
        return Admitted()
    # A separate statement: on PostgreSQL one that waited for a lock still sees the state before it.
    seen = yield from _standing([key for (key,) in rows])
    shares = _shared_out(seen)
    again = [at for one in seen if (at := one.admission.again) is not None]
    if not shares:
        return Admitted(again=_first(again), now=_now(seen))
    rooms = [(one.key, shares[one.key]) for one in seen if one.key in shares and not _in_line(one)]
    lines = [(one.key, shares[one.key]) for one in seen if one.key in shares and _in_line(one)]
    rows = yield Statement("admit_jobs", {"rooms": Rows(ROOM, rooms), "lines": Rows(ROOM, lines)})
    queues: dict[str, int] = {}
    made: dict[str, int] = {}
    for key, queue, jobs in rows:
        queues[queue] = queues.get(queue, 0) + jobs
        made[key] = made.get(key, 0) + jobs
    yield from _pay(seen, made)
    left = tuple(one.key for one in seen if _left_over(one, shares))
    return Admitted(queues, left, _first(again), _now(seen))


def _shared_out(seen: Sequence[PermitsSeen]) -> dict[str, int]:
    """Bound how many jobs one transaction makes ready; the rest is left to the next."""
    shares: dict[str, int] = {}
    left = _MOST_AT_ONCE
    for one in seen:
        jobs = min(one.admission.jobs, left)
        if jobs > 0:
            shares[one.key] = jobs
            left -= jobs
    return shares


def _left_over(one: PermitsSeen, shares: Mapping[str, int]) -> bool:
    return shares.get(one.key, 0) < one.admission.jobs


def _in_line(one: PermitsSeen) -> bool:
    return one.terms is not None and one.terms.ordered


def _pay(seen: Sequence[PermitsSeen], made: Mapping[str, int]) -> Operation[None]:
    paid = [
        (one.key, at)
        for one in seen
        if one.key in made
        and one.terms is not None
        and (at := one.terms.paid(one.standing.paid_at, one.now, made[one.key])) is not None
    ]
    if paid:
        yield Statement("put_permits", {"paid": Rows(PAID, paid)})


def find_admissible(
    after: str = "", *, keys: Collection[str] | None = None, limit: int = 200
) -> Operation[FoundKeys]:
    """Find, without a lock, keys with jobs that need not wait: among `keys`, or after a cursor."""
    whole_number("limit", limit, 1, MOST_KEYS)
    if keys is not None:
        seen = yield from _standing(sorted(set(keys)))
    else:
        seen = yield from standing_of_waiting(limit, after)
    admissions = {one.key: one.admission for one in seen}
    again = [at.again for at in admissions.values() if at.again is not None and not at.jobs]
    cursor = seen[-1].key if keys is None and len(seen) == limit else None
    admissible = tuple(key for key, at in admissions.items() if at.jobs)
    return FoundKeys(admissible, _first(again), cursor, _now(seen))


def forget() -> Operation[int]:
    """Remove the state of rates under which no job has started for a while."""
    rows = yield Statement("forget_permits", {"limit": _MOST_FORGOTTEN})
    return len(rows)


def declare(limits: Mapping[str, Limit]) -> Operation[None]:
    """Write what an application's limits allow; terms set by an operator take precedence."""
    if limits:
        declared = [(name, as_json(limits[name].declared)) for name in sorted(limits)]
        yield Statement("declare_limits", {"terms": Rows(DECLARED, declared)})


def list_limits(*, keys: int = _TOP) -> Operation[Page[LimitSeen]]:
    """Read the limits by name, with how many jobs hold or await a permit, and their busiest keys."""
    return Page((yield from _list(None, keys)))


def get_limit(name: str, *, keys: int = _TOP) -> Operation[LimitSeen]:
    """Read a limit; raises InvalidSetting for one that no worker has declared."""
    _check_name(name)
    found = yield from _list(name, keys)
    if not found:
        raise _unknown(name)
    return found[0]


def override(
    name: str, *, concurrency: int | None, rate: float | str | None, burst: int | None, reason: str
) -> Operation[LimitSeen]:
    """Set other terms than the declared ones; terms that are left out stay as declared."""
    terms = checked_bounds(concurrency, rate, burst)
    if not terms:
        raise InvalidSetting("nothing is set; give concurrency=, rate= or burst=")
    limit = yield from get_limit(name, keys=1)
    require_rate(limit.declared.get("rate") if rate is None else rate, burst, f"limit {name!r}")
    yield from _override(name, terms, reason=reason)
    return (yield from get_limit(name))


def reset(name: str, *, reason: str) -> Operation[Changed]:
    """Return to the declared terms."""
    yield from get_limit(name, keys=1)
    return Changed((yield from _override(name, None, reason=reason)))


def standing_of_waiting(limit: int, after: str = "") -> Operation[list[PermitsSeen]]:
    """Return the state of the first keys after a cursor for which a job waits."""
    rows = yield Statement("find_waiting", {"after": after, "limit": limit})
    # By bytes, as in the index; the join returns them in any order.
    return sorted((_seen(row) for row in rows), key=lambda one: one.key.encode())


def standing_of(key: str) -> Operation[PermitsSeen]:
    """Return the state of one key."""
    [seen] = yield from _standing([key])
    return seen


def _override(name: str, terms: dict[str, Any] | None, *, reason: str) -> Operation[bool]:
    reason = check_reason(reason)
    rows = yield Statement(
        "override_limit",
        {
            "name": name,
            "override": None if terms is None else as_json(terms),
            "event": "limit.reset" if terms is None else "limit.set",
            "detail": as_json({"name": name, **(terms or {}), "reason": reason}),
            "reason": reason,
        },
    )
    return bool(rows)


def _list(name: str | None, keys: int) -> Operation[list[LimitSeen]]:
    whole_number("keys", keys, 1, MOST_KEYS)
    rows = yield Statement("list_limits", {"name": name, "cap": _CAP})
    found = []
    for row in rows:
        limit = _limit(row)
        if limit.active or limit.waiting:
            busiest = yield Statement("list_permits", {"name": limit.name, "cap": _CAP, "limit": keys})
            limit = _limit(row, tuple(KeySeen(key, value_of(key), int(a), int(w)) for key, a, w in busiest))
        found.append(limit)
    return found


def _limit(row: Row, keys: tuple[KeySeen, ...] = ()) -> LimitSeen:
    name, declared, declared_at, over, set_at, reason, actor_type, actor_id, active, waiting = row
    return LimitSeen(
        name=name,
        terms=Terms.read(declared, over),
        declared=decode(declared),
        declared_at=instant(declared_at),
        override=None if over is None else decode(over),
        set_at=None if set_at is None or over is None else instant(set_at),
        reason=None if over is None else reason,
        actor_type=None if over is None else actor_type,
        actor_id=None if over is None else actor_id,
        active=active,
        waiting=waiting,
        keys=keys,
    )


def _standing(keys: Sequence[str]) -> Operation[list[PermitsSeen]]:
    rows = yield Statement("read_standing", {"keys": as_json(keys)})
    return [_seen(row) for row in rows]


def _seen(row: Row) -> PermitsSeen:
    key, ready, running, begun, away, paid_at, declared, over, now = row
    standing = LimitStanding(ready=ready, running=running, begun=begun, away=away, paid_at=paid_at)
    return PermitsSeen(key, standing, None if declared is None else Terms.read(declared, over), now)


def _now(seen: Sequence[PermitsSeen]) -> datetime | None:
    return instant(seen[0].now) if seen else None


def _first(instants: Sequence[int]) -> datetime | None:
    return instant(min(instants)) if instants else None


def _check_name(name: str) -> None:
    check_text("name", name, longest=LONGEST["job_type"])


def _unknown(name: str) -> InvalidSetting:
    about = f"; {name_of(name)!r} is its limit" if name_of(name) != name else ""
    return InvalidSetting(f"no worker has declared a limit {name!r}{about}; `onward limits list` shows them")
