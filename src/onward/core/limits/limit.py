"""Limits: how many jobs that share a key may run at once, how fast they start, and in which order.

A limit has a name and assigns a key to each of its jobs; jobs with the same key share its permits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from onward.core.inputs.checks import check_takes_one
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.rate import Rate
from onward.core.jobs.job import NewJob
from onward.core.limits.bounds import checked_bounds, require_rate
from onward.errors import InvalidJob, InvalidSetting, OnwardError

Per = Literal["type", "org"] | Callable[[NewJob], str | int]

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
        checked_bounds(self.concurrency, self.rate, self.burst)
        require_rate(self.rate, self.burst)
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
