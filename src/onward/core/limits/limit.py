"""Limits: how many jobs that share a key may run at once, how fast they start, and in which order.

A limit has a name and assigns a key to each of its jobs; jobs with the same key share its permits. Only
`admission` decides how many waiting jobs may be made ready; other code stores its decision.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal

from onward.core.inputs.checks import check_takes_one, whole_number
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.rate import Rate, interval
from onward.core.jobs.job import NewJob
from onward.core.jobs.payload import decode
from onward.core.limits.gcra import take, tokens, wait
from onward.errors import InvalidJob, InvalidSetting, OnwardError

Per = Literal["type", "org"] | Callable[[NewJob], str | int]

MOST_READY = 4000
"""At most this many jobs of one key are ready ahead of their start, however many permits are free."""

_LEAST_READY = 50

_MOST = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
# The default burst is what the rate earns in this time, in which jobs are admitted and claimed.
_BURST_MICROS = 100_000
_PARTING = "/"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `concurrency` jobs at once, and at a `rate` such as "100/1m", for each job type, org or key.

    `per` sets which jobs share the permits: all of the type, those of one org, or those for which a function
    of the job returns the same text. `burst` of them may start at once. With `ordered`, the jobs of a key
    start in the order in which they became due, one at a time if no `concurrency` is set; a job that has to
    run again holds up the jobs behind it. Job types whose limits have the same `name` share the permits.
    """

    concurrency: int | None = None
    _: KW_ONLY
    per: Per = "type"
    rate: Rate | None = None
    burst: int | None = None
    ordered: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidSetting, which names the option, for an invalid value."""
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
        """The options that decide admission, in their stored form."""
        values = {
            "concurrency": self.concurrency,
            "rate": self.rate,
            "burst": self.burst,
            "ordered": self.ordered or None,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a limit allows now, as declared by the application or overridden by an operator."""

    concurrency: int | None = None
    rate: Rate | None = None
    burst: int | None = None
    ordered: bool = False

    @staticmethod
    def read(declared: str, override: str | None) -> Terms:
        """Return the stored terms, with an operator's override applied."""
        return _read(declared, override)

    @property
    def permits(self) -> int | None:
        """The number of permits: how many jobs may be active at once; None for no bound."""
        return 1 if self.concurrency is None and self.ordered else self.concurrency

    @property
    def every(self) -> int | None:
        """The microseconds from one start to the next; None if there is no rate."""
        return None if self.rate is None else interval("rate", self.rate) // _MICROSECOND

    @property
    def at_once(self) -> int:
        """How many jobs may start at once after a rest: the burst, or what the rate earns in 100 ms."""
        return self.burst or max(1, _BURST_MICROS // (self.every or _BURST_MICROS))

    def paid(self, paid_at: int | None, now: int, jobs: int) -> int | None:
        """Return the time by which `jobs` more starts are paid for; None if there is no rate."""
        return None if self.every is None else take(paid_at, now, self.every, self.at_once, jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """The state of one key: its ready and running jobs, and the time by which its starts are paid for.

    `begun` counts the jobs that have run before and wait for a permit; `away` counts the jobs that have run
    before and will come back later, because they wait for their time or for other jobs.
    """

    ready: int = 0
    running: int = 0
    begun: int = 0
    away: int = 0
    paid_at: int | None = None

    @property
    def active(self) -> int:
        """The number of jobs that hold a permit."""
        return self.ready + self.running


@dataclass(frozen=True, slots=True)
class Admission:
    """How many jobs may be made ready now; `again` is the instant at which the rate allows more."""

    jobs: int
    again: int | None = None


def admission(terms: Terms, standing: LimitStanding, now: int) -> Admission:
    """Decide how many waiting jobs of a key may be made ready; all times are in microseconds."""
    free: float = math.inf
    if terms.permits is not None:
        free = max(0, terms.permits - standing.active)
    if terms.ordered:
        # Begun jobs go first. Each begun job that is away keeps a permit from the jobs that have not begun.
        free = min(free, standing.begun) + max(0, free - standing.begun - standing.away)
    # Keep few jobs ready, in proportion to the running ones: a more urgent job can't overtake a ready job.
    ahead = min(MOST_READY, max(_LEAST_READY, 4 * standing.running))
    free = min(free, ahead - standing.ready)
    # Refill once at most half of them are left: admitting a few at a time costs more per job.
    if free <= 0 or 2 * standing.ready > ahead:
        return Admission(0)
    if (every := terms.every) is None:
        return Admission(int(free))
    # During a pause no worker starts the ready jobs: they must not add up to more than a burst.
    unclaimed = terms.at_once - standing.ready
    earned = min(tokens(standing.paid_at, now, every, terms.at_once), unclaimed)
    if earned > 0:
        return Admission(int(min(free, earned)), now + every)
    return Admission(0, now + (wait(standing.paid_at, now, every, terms.at_once) if unclaimed > 0 else every))


@dataclass(frozen=True, slots=True)
class PermitsSeen:
    """The state of a key as it was read; `terms` is None if no application has declared its limit."""

    key: str
    standing: LimitStanding
    terms: Terms | None
    now: int

    @property
    def admission(self) -> Admission:
        """How many of the waiting jobs may be made ready."""
        return Admission(0) if self.terms is None else admission(self.terms, self.standing, self.now)


def read_limit(job_type: str, option: Any) -> Limit | None:
    """Return the limit that a job type's definition sets; a limit without a name has the type's name."""
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
    """Add the limit of a job type; raise InvalidSetting if types that share it declare it differently."""
    name = limit.name or job_type
    other = known.setdefault(name, limit)
    if other.declared != limit.declared:
        raise InvalidSetting(
            f"job type {job_type!r}: another type has a limit {name!r} that allows something else "
            f"({other.declared}, not {limit.declared}); share one Limit(…), or give this one another name="
        )


def limit_key(limit: Limit, new: NewJob) -> str:
    """Return the limit key of a job: the limit's name, and the org or value that shares its permits."""
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
    """Return the name of the limit that a key belongs to."""
    return key.partition(_PARTING)[0]


def value_of(key: str) -> str | None:
    """Return the part of a key after its limit's name; None if all jobs of the limit share one key."""
    _, parting, value = key.partition(_PARTING)
    return value if parting else None


def check_terms(concurrency: Any, rate: Any, burst: Any) -> dict[str, Any]:
    """Check the terms of a limit, and return those that are set."""
    values: dict[str, Any] = {}
    if concurrency is not None:
        values["concurrency"] = whole_number("concurrency", concurrency, 1, _MOST)
    if rate is not None:
        interval("rate", rate)
        values["rate"] = rate
    if burst is not None:
        values["burst"] = whole_number("burst", burst, 1, _MOST)
    return values


@lru_cache(maxsize=1024)
def _read(declared: str, override: str | None) -> Terms:
    values: dict[str, Any] = {**decode(declared), **({} if override is None else decode(override))}
    known = Terms.__slots__
    return Terms(**{name: value for name, value in values.items() if name in known})


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
