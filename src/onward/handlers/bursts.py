"""Debounce and throttle: many enqueues of one key in a short time become one job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.core.inputs.checks import span
from onward.core.inputs.duration import duration, written
from onward.core.jobs.job import NewJob
from onward.core.jobs.keys import subject_key, type_key
from onward.core.policy.policies import Policies
from onward.errors import InvalidJob

_OPTIONS = ("debounce", "debounce_max", "throttle")
_LEAST = timedelta(milliseconds=1)
_MERGING = (None, "replace", "coalesce")


class Burst(msgspec.Struct, frozen=True):
    """How the enqueues of one key in a short time are merged.

    `debounce` is how long the key must be quiet before its one job runs. With `debounce_max`, the job runs at
    the latest that long after the first enqueue that it serves. `throttle` is how long one job stands for all
    later enqueues of its key.
    """

    debounce: timedelta | None = None
    debounce_max: timedelta | None = None
    throttle: timedelta | None = None

    def check(self) -> None:
        """Raise InvalidJob for settings that contradict each other."""
        if self.debounce is not None and self.throttle is not None:
            raise InvalidJob("debounce and throttle are both set; give one of them")
        if self.debounce_max is not None and (self.debounce is None or self.debounce_max < self.debounce):
            raise InvalidJob(
                f"debounce_max is {written(self.debounce_max)} and debounce is {written(self.debounce)}; "
                "give debounce_max only with debounce, and at least as long"
            )

    def applied(self, new: NewJob, policies: Policies) -> NewJob:
        """Return the job with this burst's settings; without a key, it gets that of its subject or type."""
        if self.debounce is not None:
            return _debounced(new, self.debounce, self.debounce_max, policies)
        return new if self.throttle is None else _throttled(new, self.throttle, policies)


def take_burst(before: Burst | None, options: dict[str, Any]) -> Burst | None:
    """Remove the burst options from `options`, and return `before` with them applied."""
    spans = {name: _span(name, options.pop(name)) for name in _OPTIONS if name in options}
    if not spans:
        return before
    # Debounce and throttle exclude each other: setting one unsets the other of an earlier call.
    if spans.get("throttle") and "debounce" not in spans:
        spans |= {"debounce": None, "debounce_max": None}
    if spans.get("debounce") and "throttle" not in spans:
        spans["throttle"] = None
    burst = msgspec.structs.replace(before or Burst(), **spans)
    burst.check()
    return burst


def _debounced(new: NewJob, quiet: timedelta, longest: timedelta | None, policies: Policies) -> NewJob:
    if new.on_conflict not in _MERGING:
        raise InvalidJob(
            f"on_conflict is {new.on_conflict!r}, but debounce always updates the waiting job; leave it out"
        )
    if new.run_at is not None or new.delay is not None or new.unique is not None:
        raise InvalidJob("debounce sets when the job runs and how long its key is held; leave out run_at, "
                         "delay and unique")  # fmt: skip
    # A delay is counted by the database's clock, but a category may require an explicit instant.
    explicit = policies.category(new.category).scheduling == "explicit"
    first = {"run_at": datetime.now(UTC) + quiet} if explicit else {"delay": quiet}
    return msgspec.structs.replace(
        new,
        key=_key(new, "debounce", policies),
        # The key is held only while the job is live: an enqueue after its end must not be lost.
        unique="active",
        on_conflict="replace" if new.merge is None else "coalesce",
        debounce=quiet,
        debounce_max=longest,
        **first,
    )


def _throttled(new: NewJob, period: timedelta, policies: Policies) -> NewJob:
    if new.on_conflict not in {None, "return", "raise"} or new.unique is not None:
        raise InvalidJob(
            "throttle sets how long a key is held, and never changes the job that holds it; "
            "leave out unique, and give on_conflict='return' or 'raise', if at all"
        )
    conflict = new.on_conflict or "return"
    return msgspec.structs.replace(
        new, key=_key(new, "throttle", policies), unique=period, on_conflict=conflict
    )


def _key(new: NewJob, mode: str, policies: Policies) -> str:
    """Return the key that the jobs of a burst share; it is unique within an org and a project."""
    if new.key is not None:
        return new.key
    if new.subject is not None and policies.category(new.category).unique_by == "subject":
        return subject_key(new.job_type, new.subject)
    return type_key(new.job_type, mode)


def _span(name: str, value: Any) -> timedelta | None:
    if value is None:
        return None
    return span(name, duration(name, value, error=InvalidJob), least=_LEAST, error=InvalidJob)
