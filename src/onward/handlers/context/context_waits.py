"""What `ctx.sleep_until()`, `ctx.sleep_for()` and `ctx.wait_for()` do, for sync and async handlers.

A wait that is not over ends the attempt by `Parked`. When the job comes back, its handler runs from the
start. It finds what is remembered of each wait by its place: its kind, its names, and its number among those
alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from onward.clients.sync.work.worker_effects import WorkerSignals
from onward.clients.work.worker_effects import AsyncWorkerSignals
from onward.core.inputs.checks import zoned
from onward.core.inputs.duration import Duration, duration, written
from onward.core.work.effect import Effect
from onward.core.work.wait import NEVER, Parked, is_over, place_of, times_out_at
from onward.errors import InvalidSetting, WaitTimedOut
from onward.handlers.context.context_effects import Acting, Acts, Do, alone, recorded
from onward.operations.flows.signals import check_name
from onward.operations.work.effects import check_name as check_place

MISSING: Any = object()
"""The caller gave no default."""

_BEGUN, _SIGNAL, _TIMED_OUT = "begun", "signal", "timed_out"


@dataclass(slots=True)
class Waits:
    """The waits of one attempt so far: how often each kind came, and the signals that were received."""

    places: Counter[tuple[str | None, ...]] = field(default_factory=Counter)
    seen: dict[tuple[str, str | None], list[str]] = field(default_factory=dict)

    def next(self, kind: str, *names: str | None) -> str:
        """Return the place of the next wait of this kind and these names."""
        self.places[kind, *names] += 1
        return place_of(kind, *names, nth=self.places[kind, *names])


class Awaiting(NamedTuple):
    """What one call waits for, and its result if that does not come in time."""

    event: str
    key: str | None
    timeout: Duration | None
    default: Any


def sleep_until(instant: datetime, claimed_at: datetime | None) -> None:
    """Park the job until an instant, unless it has passed."""
    if not is_over(zoned("instant", instant), claimed_at):
        raise Parked(instant)


def sleep_for(acting: Acting, waits: Waits, length: Duration, name: str | None) -> Acts:
    """Park the job until `length` after its handler first came here."""
    wait = _length("length", length)
    place = waits.next("sleep_for") if name is None else check_place(f"sleep_for:{name}")
    with alone(acting.job, place):
        begun = yield from _begun(
            acting, place, (yield Do(lambda: acting.effects.read(acting.job.id, place)))
        )
        sleep_until(times_out_at(begun, wait), acting.job.started_at)


def wait_for(
    acting: Acting,
    signals: WorkerSignals | AsyncWorkerSignals,
    waits: Waits,
    awaited: Awaiting,
) -> Acts:
    """Return a signal's payload; parks the job until there is a signal that no earlier wait took."""
    names, timeout = (awaited.event, awaited.key), awaited.timeout
    check_name(*names)
    longest = None if timeout is None else _length("timeout", timeout)
    place, seen = waits.next("wait_for", *names), waits.seen.setdefault(names, [])
    job, effects = acting.job, acting.effects
    with alone(job, place):
        found: Effect | None = yield Do(lambda: effects.read(job.id, place))
        known = found.result if found is not None and found.is_done_over(job.payload) else {}
        if _SIGNAL in known:
            seen.append(known[_SIGNAL])
            return known["payload"]
        if _TIMED_OUT not in known:
            signal = yield Do(lambda: signals.find(job, *names, seen=tuple(seen)))
            if signal is not None:
                yield from _remember(acting, place, found, {_SIGNAL: signal.id, "payload": signal.payload})
                seen.append(signal.id)
                return signal.payload
            if longest is None:
                raise Parked(None, *names, tuple(seen))
            until = times_out_at((yield from _begun(acting, place, found)), longest)
            if not is_over(until, job.started_at):
                raise Parked(until, *names, tuple(seen))
            yield from _remember(
                acting, place, (yield Do(lambda: effects.read(job.id, place))), {_TIMED_OUT: True}
            )
    if awaited.default is MISSING:
        raise WaitTimedOut(
            f"no signal {names[0]!r:.80} with key {names[1]!r:.80} came in time; give default=, catch this, "
            f"or have it wait again: onward effects reset {job.id} '{place}'"
        )
    return awaited.default


def _begun(acting: Acting, place: str, found: Effect | None) -> Acts:
    """Return the instant at which the handler first came to a wait, by the database's clock."""
    job, effects = acting.job, acting.effects
    if found is None or not found.is_done_over(job.payload):
        yield from _remember(acting, place, found, {_BEGUN: True})
        found = yield Do(lambda: effects.read(job.id, place))
    return None if found is None else found.done_at or job.started_at


def _remember(acting: Acting, place: str, found: Effect | None, what: dict[str, Any]) -> Acts:
    # In a dry run too: a wait is no effect, and if it were not remembered it would never be over.
    yield from recorded(acting, lambda: acting.effects.remember(acting.job, place, what, after=found))


def _length(name: str, value: Duration) -> timedelta:
    length = duration(name, value)
    if not timedelta() <= length <= NEVER - datetime(1970, 1, 1, tzinfo=NEVER.tzinfo):
        raise InvalidSetting(f"{name} is {written(value)}; give a length of time from nothing to 100 years")
    return length
