"""How many jobs that share something may run at once, how fast they start, and in what order.

A limit has a name and gives each of its jobs a key; jobs with the same key share its slots. `turn` decides
how many of those that wait may be made ready; the rest stores what it says.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal

from onward.core.inputs.checks import check_takes_one, whole
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.rate import Rate, interval
from onward.core.jobs.job import NewJob
from onward.core.jobs.payload import decode
from onward.core.limits.gcra import take, tokens, wait
from onward.errors import InvalidJob, InvalidSetting, OnwardError

Per = Literal["type", "org"] | Callable[[NewJob], str | int]

MOST_READY = 4000
"""As many jobs of one key are made ready ahead of their start, however many slots are free."""

_LEAST_READY = 50

_MOST = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
# What a rate lets go at once where nothing is said: what it earns while jobs are admitted and claimed.
_BURST_MICROS = 100_000
_PARTING = "/"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `concurrency` at once, and at a `rate` such as "100/1m", for each job type, org or key.

    `per` says which jobs share the slots: all of the type, those of one org, or those for which a function of
    the job gives the same text. `burst` of them may start at once. With `ordered`, the jobs of a key start in
    the order in which they became due, one at a time where no `concurrency` is given; one that has to run
    again holds up those behind it. Job types whose limits have the same `name` share them.
    """

    concurrency: int | None = None
    _: KW_ONLY
    per: Per = "type"
    rate: Rate | None = None
    burst: int | None = None
    ordered: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense, naming it."""
        if not isinstance(self.ordered, bool):
            raise InvalidSetting(f"ordered is {self.ordered!r:.80}; give True or False")
        if self.concurrency is None and self.rate is None and not self.ordered:
            raise InvalidSetting("a limit of nothing; give it concurrency=, rate= or ordered=True")
        check_terms(self.concurrency, self.rate, self.burst)
        if self.burst is not None and self.rate is None:
            raise InvalidSetting("burst is what a rate lets go at once; give rate= too")
        if self.name is not None:
            _check_name(self.name)
        if callable(self.per):
            _check_function(self.per)
        elif self.per not in {"type", "org"}:
            raise InvalidSetting(f"per is {self.per!r:.80}; give 'type', 'org' or a function of the job")

    @property
    def declared(self) -> dict[str, Any]:
        """Give what admission goes by, as it is stored."""
        said = {
            "concurrency": self.concurrency,
            "rate": self.rate,
            "burst": self.burst,
            "ordered": self.ordered or None,
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a limit allows now: as the application declares it, or as an operator has set it."""

    concurrency: int | None = None
    rate: Rate | None = None
    burst: int | None = None
    ordered: bool = False

    @staticmethod
    def read(declared: str, override: str | None) -> Terms:
        """Read stored terms, with what an operator set instead."""
        return _read(declared, override)

    @property
    def slots(self) -> int | None:
        """Give how many may be active at once; None for any number."""
        return 1 if self.concurrency is None and self.ordered else self.concurrency

    @property
    def every(self) -> int | None:
        """Give the microseconds from one start to the next; None where there is no rate."""
        return None if self.rate is None else interval("rate", self.rate) // _MICROSECOND

    @property
    def at_once(self) -> int:
        """Tell how many may start at once after a rest: the burst, or what the rate earns in a moment."""
        return self.burst or max(1, _BURST_MICROS // (self.every or _BURST_MICROS))

    def paid(self, paid_at: int | None, now: int, jobs: int) -> int | None:
        """Give the time by which so many more starts are paid for; None where there is no rate."""
        return None if self.every is None else take(paid_at, now, self.every, self.at_once, jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How it stands with one key: its ready and running jobs, and what its rate has been taken for.

    `begun` are those that have run before and wait here to go on; `away` those that will come back, because
    they wait for their time or for something else.
    """

    ready: int = 0
    running: int = 0
    begun: int = 0
    away: int = 0
    paid_at: int | None = None

    @property
    def active(self) -> int:
        """Count those that hold a slot."""
        return self.ready + self.running


@dataclass(frozen=True, slots=True)
class Turn:
    """How many may be made ready now; `again` is the instant at which the rate lets the next one go."""

    jobs: int
    again: int | None = None


def turn(terms: Terms, standing: Standing, now: int) -> Turn:
    """Decide how many jobs of a key that wait may be made ready; all times are microseconds."""
    free: float = math.inf
    if terms.slots is not None:
        free = max(0, terms.slots - standing.active)
    if terms.ordered:
        # Who has begun goes first; for those who are away, a slot is kept from all who have not.
        free = min(free, standing.begun) + max(0, free - standing.begun - standing.away)
    # By the pace of those that run: whoever is more urgent can't overtake what is ready already.
    ahead = min(MOST_READY, max(_LEAST_READY, 4 * standing.running))
    free = min(free, ahead - standing.ready)
    # Half of that is soon enough: to admit a few each time would cost each of them more.
    if free <= 0 or 2 * standing.ready > ahead:
        return Turn(0)
    if (every := terms.every) is None:
        return Turn(int(free))
    # Those made ready that nobody starts, because all is paused, must not add up to a flood.
    unclaimed = terms.at_once - standing.ready
    earned = min(tokens(standing.paid_at, now, every, terms.at_once), unclaimed)
    if earned > 0:
        return Turn(int(min(free, earned)), now + every)
    return Turn(0, now + (wait(standing.paid_at, now, every, terms.at_once) if unclaimed > 0 else every))


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """How it stands with a key; `terms` is None where nobody has declared its limit."""

    key: str
    standing: Standing
    terms: Terms | None
    now: int

    @property
    def turn(self) -> Turn:
        """Tell how many of those that wait may be made ready."""
        return Turn(0) if self.terms is None else turn(self.terms, self.standing, self.now)


def read_limit(job_type: str, option: Any) -> Limit | None:
    """Take the limit of a job type as its definition writes it; without a name it has that of the type."""
    match option:
        case None:
            return None
        case Limit():
            limit = option
        case bool():
            raise InvalidSetting(f"job type {job_type!r}: limit is {option}; {_GIVE}")
        case int():
            limit = _made(job_type, lambda: Limit(option))
        case "type" | "org":
            limit = Limit(1, per=option)
        case _ if callable(option):
            limit = _made(job_type, lambda: Limit(1, per=option))
        case _:
            raise InvalidSetting(f"job type {job_type!r}: limit is {option!r:.80}; {_GIVE}")
    if limit.name is not None:
        return limit
    return _made(job_type, lambda: replace(limit, name=job_type))


_GIVE = "give a number, 'org', a function of the job, or Limit(…)"


def add_limit(known: dict[str, Limit], limit: Limit, job_type: str) -> None:
    """Add the limit of a job type; types that share one must say the same of it."""
    name = limit.name or job_type
    other = known.setdefault(name, limit)
    if other.declared != limit.declared:
        raise InvalidSetting(
            f"job type {job_type!r}: another type has a limit {name!r} that allows something else "
            f"({other.declared}, not {limit.declared}); share one Limit(…), or give this one another name="
        )


def limit_key(limit: Limit, new: NewJob) -> str:
    """Give the key of a job: the name of its limit, and whose slots it needs."""
    name = limit.name or new.job_type
    per = limit.per
    if isinstance(per, str):
        return name if per == "type" else f"{name}{_PARTING}{new.org_id or ''}"
    try:
        value: object = per(new)
    except Exception as error:
        raise InvalidJob(
            f"the limit {name!r}: its function raised {type(error).__name__}: {error} for a job of type "
            f"{new.job_type}; it must give a text for each"
        ) from error
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise InvalidJob(
            f"the limit {name!r}: its function gave {value!r:.80} for a job of type {new.job_type}; "
            "it must give a text for each"
        )
    return f"{name}{_PARTING}{value}"


def name_of(key: str) -> str:
    """Name the limit of a key."""
    return key.partition(_PARTING)[0]


def value_of(key: str) -> str | None:
    """Give what a key says besides the name of its limit; None for one that all of its jobs share."""
    _, parting, value = key.partition(_PARTING)
    return value if parting else None


def check_terms(concurrency: Any, rate: Any, burst: Any) -> dict[str, Any]:
    """Check what a limit allows; gives what is said."""
    said: dict[str, Any] = {}
    if concurrency is not None:
        said["concurrency"] = whole("concurrency", concurrency, 1, _MOST)
    if rate is not None:
        interval("rate", rate)
        said["rate"] = rate
    if burst is not None:
        said["burst"] = whole("burst", burst, 1, _MOST)
    return said


@lru_cache(maxsize=1024)
def _read(declared: str, override: str | None) -> Terms:
    said: dict[str, Any] = {**decode(declared), **({} if override is None else decode(override))}
    known = Terms.__slots__
    return Terms(**{name: value for name, value in said.items() if name in known})


def _check_name(name: Any) -> None:
    try:
        check_text("the name of a limit", name, longest=LONGEST["job_type"])
    except OnwardError as error:
        raise InvalidSetting(str(error)) from None
    if _PARTING in name:
        raise InvalidSetting(
            f"the name of a limit is {name!r:.80}; leave out {_PARTING!r}, which parts it from its keys, "
            "or give the limit another name="
        )


def _check_function(per: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(per):
        raise InvalidSetting("the function of a limit is async; make it a plain function of the job")
    check_takes_one("the function of a limit", per, "a job")


def _made(job_type: str, make: Callable[[], Limit]) -> Limit:
    try:
        return make()
    except InvalidSetting as error:
        raise InvalidSetting(f"job type {job_type!r}: {error}") from None
