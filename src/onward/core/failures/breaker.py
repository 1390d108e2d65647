"""The circuit breaker: when calls to a provider are held, who may try again, and what closes it.

`ask`, `answered`, `opened` and `closed` are the whole state machine; the rest stores what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from onward.core.inputs.checks import whole
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.work.lifecycle import Failed, Outcome, RateLimited, Skip, Succeeded
from onward.errors import InvalidSetting, OnwardError

BreakerState = Literal["closed", "open", "half_open"]
Entry = Literal["go", "turn", "wait", "held"]
"""What who asks is told: call, call as the one who tries, ask again soon, or come back when the hold ends."""

LONGEST_HOLD = timedelta(minutes=10)
"""What bounds a hold that doubles; one that is set longer stays as it is set."""

LONGEST_RETRY_AFTER = timedelta(hours=1)
"""What bounds a provider's own word: one that says a year must not hold jobs for a year."""

QUEUE = "queue:"
"""How the names of the breakers of queues begin."""

_LONGEST_NAME = LONGEST["queue"]
# From the shortest hold to over the longest that doubles; more would not fit a timedelta.
_MOST_DOUBLINGS = 20
_FIRST_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429
# Answers in which a provider asks to come back, though not because of too many requests.
_NO_WORD = frozenset({408, 425})


class BreakerOptions(TypedDict, total=False):
    """The settings of a breaker as people write them."""

    failures: int
    window: Duration
    hold: Duration
    patience: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """After `failures` answers within `window` that push back, calls are held for `hold`, then twice that, ….

    `patience` is how long one who tries is waited for before another may.
    """

    failures: int = 3
    window: timedelta = timedelta(minutes=1)
    hold: timedelta = timedelta(seconds=20)
    patience: timedelta = timedelta(seconds=30)

    @classmethod
    def of(
        cls, failures: int = 3, window: Duration = "1m", hold: Duration = "20s", patience: Duration = "30s"
    ) -> BreakerSettings:
        """Take settings as people write them; refuses what makes no sense, naming it."""
        whole("failures", failures, 1, 1000)
        spans = {"window": window, "hold": hold, "patience": patience}
        read = {name: duration(name, value) for name, value in spans.items()}
        for name, value in read.items():
            if not timedelta(milliseconds=1) <= value <= timedelta(days=1):
                raise InvalidSetting(f"{name} is {spans[name]!r:.80}; give from a millisecond to a day")
        return cls(failures=failures, **read)

    def held_for(self, holds: int, retry_after: timedelta | None) -> timedelta:
        """Give the length of a hold after so many tries in a row that failed."""
        grown = self.hold * (1 << min(holds, _MOST_DOUBLINGS))
        return max(min(grown, max(self.hold, LONGEST_HOLD)), _bounded(retry_after))


DEFAULT_SETTINGS = BreakerSettings()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call told of its provider: that it is well, that it pushes back, or (neither) nothing."""

    good: bool = False
    pushed_back: bool = False
    retry_after: timedelta | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """How it stands with a provider: `open` holds its jobs until `until`, `half_open` lets one through.

    `holds` counts the tries in a row that failed since it opened; `turn` names who tries now. One that is
    `forced` was opened by an operator; without `until` it stays open until somebody closes it.
    """

    name: str
    state: BreakerState = "closed"
    failures: int = 0
    counted_from: datetime | None = None
    opened_at: datetime | None = None
    until: datetime | None = None
    holds: int = 0
    turn: str | None = None
    turn_until: datetime | None = None
    forced: bool = False
    reason: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None

    @property
    def clean(self) -> bool:
        """Tell whether nothing speaks against the provider."""
        return self.state == "closed" and self.failures == 0

    def holds_at(self, now: datetime) -> bool:
        """Tell whether it lets nobody through."""
        return self.state != "closed" and (self.until is None or now < self.until)

    def seen_at(self, now: datetime) -> Breaker:
        """Give it with the state in which it is shown: one whose hold has ended is half open."""
        if self.state == "closed":
            return self
        return replace(self, state="open" if self.holds_at(now) else "half_open")


def ask(breaker: Breaker, turn: str, settings: BreakerSettings, now: datetime) -> tuple[Entry, Breaker]:
    """Decide about one who wants to call: unless all is well, one at a time is let through."""
    if breaker.clean:
        return "go", breaker
    if breaker.holds_at(now):
        return "held", breaker
    # One that ends later than it can was given before the clock was put back.
    if breaker.turn_until is not None and now < breaker.turn_until <= now + settings.patience:
        return "wait", breaker
    return "turn", replace(breaker, turn=turn, turn_until=now + settings.patience)


def answered(
    breaker: Breaker, turn: str | None, answer: Answer, settings: BreakerSettings, now: datetime
) -> Breaker:
    """Give what becomes of a breaker by the answer to a call; `turn` is the right by which it was made."""
    own = turn is not None and turn == breaker.turn
    if own:
        breaker = replace(breaker, turn=None, turn_until=None)
    if answer.pushed_back:
        return _pushed_back(breaker, answer, settings, now, own=own)
    # An operator's hold outlasts the good answer to a call that was under way.
    if not answer.good or (breaker.forced and breaker.holds_at(now)):
        return breaker
    return Breaker(name=breaker.name)


def _pushed_back(
    breaker: Breaker, answer: Answer, settings: BreakerSettings, now: datetime, *, own: bool
) -> Breaker:
    if breaker.holds_at(now):
        # A call from before the hold: it can only say that the hold is too short.
        if breaker.forced or breaker.until is None:
            return breaker
        return replace(breaker, until=max(breaker.until, now + _bounded(answer.retry_after)))
    if breaker.state != "closed":
        # Only who has the turn has tried; a straggler is no second failure of the same try.
        holds = breaker.holds + own
        until = now + settings.held_for(holds, answer.retry_after)
        return replace(breaker, holds=holds, until=until, forced=False)
    lapsed = breaker.counted_from is None or now - breaker.counted_from > settings.window
    failures = 1 if lapsed else breaker.failures + 1
    counted_from = now if lapsed else breaker.counted_from
    if failures < settings.failures:
        return replace(breaker, failures=failures, counted_from=counted_from)
    status = "" if answer.status is None else f", the last with status {answer.status}"
    return Breaker(
        name=breaker.name,
        state="open",
        failures=failures,
        counted_from=counted_from,
        opened_at=now,
        until=now + settings.held_for(0, answer.retry_after),
        reason=f"{failures} answers in a row pushed back{status}",
    )


def opened(breaker: Breaker, until: datetime | None, reason: str, now: datetime) -> Breaker:
    """Give a breaker as an operator has opened it."""
    since = breaker.opened_at if breaker.state != "closed" else now
    forced = Breaker(name=breaker.name, state="open", opened_at=since, until=until, forced=True)
    return replace(forced, reason=reason, failures=breaker.failures, counted_from=breaker.counted_from)


def closed(breaker: Breaker) -> Breaker:
    """Give a breaker as an operator has closed it."""
    return Breaker(name=breaker.name)


def answer_of(outcome: Outcome) -> Answer:
    """Tell what the outcome of an attempt says about the provider that it called.

    A rate limit and a status of 500 or more push back. Success, and any other status, show that it is well.
    The rest (a bug, a time-out, a cancellation) may have happened before the call, and says nothing.
    """
    match outcome:
        case Succeeded() | Skip():
            return _GOOD
        case RateLimited(after, error):
            return Answer(
                pushed_back=True, retry_after=_span(after), status=_status(error) or _TOO_MANY_REQUESTS
            )
        case Failed(error, after=after):
            status = _status(error)
            if status is None or status in _NO_WORD:
                return _NOTHING
            if status >= _FIRST_SERVER_ERROR or status == _TOO_MANY_REQUESTS:
                return Answer(pushed_back=True, retry_after=_span(after), status=status)
            return _GOOD
    return _NOTHING


_GOOD = Answer(good=True)
_NOTHING = Answer()


def check_provider(name: Any) -> str:
    """Take the name of a provider."""
    try:
        check_text("provider", name, longest=_LONGEST_NAME)
    except OnwardError as error:
        raise InvalidSetting(str(error)) from None
    taken: str = name
    if taken.startswith(QUEUE):
        raise InvalidSetting(
            f"provider is {taken!r:.80}; {QUEUE!r} begins the names of the breakers of queues"
        )
    return taken


def settings_of(name: str, known: Mapping[str, BreakerSettings]) -> BreakerSettings:
    """Find the settings of a breaker: its own, else those of the name before its last colon, and so on."""
    while name:
        if name in known:
            return known[name]
        name = name.rpartition(":")[0]
    return DEFAULT_SETTINGS


def _bounded(retry_after: timedelta | None) -> timedelta:
    return timedelta() if retry_after is None else min(max(retry_after, timedelta()), LONGEST_RETRY_AFTER)


def _span(after: Duration | None) -> timedelta | None:
    try:
        return None if after is None else duration("after", after)
    except OnwardError:
        # A handler's nonsense; that it pushed back is still true.
        return None


def _status(error: object) -> int | None:
    found = error.get("status") if isinstance(error, Mapping) else None
    return found if isinstance(found, int) else None
