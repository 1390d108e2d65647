"""The circuit breaker: when calls to a provider are held, which call may probe it, and what closes it.

`ask`, `answered`, `opened` and `closed` are the whole state machine; callers only store what they return.
A breaker that is not clean lets through one call at a time, the probe. It counts jobs, not answers: a job
that is pushed back again and again shows something about itself, not about its provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration, duration, written
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.job import Job
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Failed, Outcome, RateLimited, Skip, Succeeded
from onward.errors import InvalidSetting, OnwardError

BreakerState = Literal["closed", "open", "half_open"]
Entry = Literal["go", "probe", "wait", "held"]
"""The reply to a caller: call, call as the probe, ask again soon, or return when the hold ends."""

LONGEST_HOLD = timedelta(minutes=10)
"""The bound of a hold that doubles; a hold that is configured longer keeps its configured length."""

LONGEST_RETRY_AFTER = timedelta(hours=1)
"""The bound of a provider's Retry-After: a provider that asks for a year must not hold jobs for a year."""

QUEUE = "queue:"
"""The prefix of the names of queues' breakers."""

_LONGEST_NAME = LONGEST["queue"]
# One job may be pushed back for a reason of its own, so no breaker opens for fewer than two.
_FEWEST_JOBS, _MOST_JOBS = 2, 100
# Enough to take the shortest hold beyond LONGEST_HOLD; more doublings would overflow a timedelta.
_MOST_DOUBLINGS = 20
_FIRST_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429
# The provider asks for the request again, but not because it is overloaded.
_NO_WORD = frozenset({408, 425})


class BreakerOptions(TypedDict, total=False):
    """The settings of a breaker as an application writes them."""

    failures: int
    window: Duration
    hold: Duration
    patience: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """After `failures` different jobs were pushed back within `window`, calls are held for `hold`.

    A provider's Retry-After takes the place of `hold`. Each failed probe by a job that was not pushed back
    before doubles the hold. A probe without an answer after `patience` lets another call probe.
    """

    failures: int = 3
    window: timedelta = timedelta(minutes=1)
    hold: timedelta = timedelta(seconds=20)
    patience: timedelta = timedelta(seconds=30)

    @classmethod
    def of(
        cls, failures: int = 3, window: Duration = "1m", hold: Duration = "20s", patience: Duration = "30s"
    ) -> BreakerSettings:
        """Read settings as an application writes them; raise InvalidSetting for a value out of range."""
        whole_number("failures", failures, _FEWEST_JOBS, _MOST_JOBS)
        spans = {"window": window, "hold": hold, "patience": patience}
        read = {name: duration(name, value) for name, value in spans.items()}
        for name, value in read.items():
            if not timedelta(milliseconds=1) <= value <= timedelta(days=1):
                raise InvalidSetting(f"{name} is {written(spans[name])}; give from a millisecond to a day")
        return cls(failures=failures, **read)

    def held_for(self, holds: int, retry_after: timedelta | None) -> timedelta:
        """Return how long to hold: `retry_after`, else a time that `holds` failed probes have doubled."""
        if own := _bounded(retry_after):
            return own
        grown = self.hold * (1 << min(holds, _MOST_DOUBLINGS))
        return min(grown, max(self.hold, LONGEST_HOLD))


DEFAULT_SETTINGS = BreakerSettings()


class Answer(msgspec.Struct, frozen=True):
    """What a job's call shows: that the provider is healthy, that it pushes back, or (neither) nothing."""

    good: bool = False
    pushed_back: bool = False
    retry_after: timedelta | None = None
    status: int | None = None
    job_id: str = ""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a provider: `open` holds its jobs until `until`, `half_open` lets one call through.

    `failures` counts the jobs that were pushed back in a row, `failed_jobs` names the newest of them. `holds`
    counts the failed probes that doubled the hold; `probe` identifies the call that probes now. An operator
    opened a breaker that is `forced`; without `until` it stays open until an operator closes it.
    """

    name: str
    state: BreakerState = "closed"
    failures: int = 0
    failed_jobs: tuple[str, ...] = ()
    counted_from: datetime | None = None
    opened_at: datetime | None = None
    until: datetime | None = None
    holds: int = 0
    probe: str | None = None
    probe_until: datetime | None = None
    forced: bool = False
    reason: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None

    @property
    def clean(self) -> bool:
        """Whether it is closed and counts no failures: calls need no probe."""
        return self.state == "closed" and self.failures == 0

    def holds_at(self, now: datetime) -> bool:
        """Whether it lets no call through."""
        return self.state != "closed" and (self.until is None or now < self.until)

    def seen_at(self, now: datetime) -> Breaker:
        """Return it with the state to show: a breaker whose hold has ended is half open."""
        if self.state == "closed":
            return self
        return replace(self, state="open" if self.holds_at(now) else "half_open")


class Standing(msgspec.Struct, frozen=True):
    """The answer to a worker: whether to call, the state of the breaker, and how long a hold still lasts."""

    entry: Entry
    breaker: Breaker
    wait: timedelta | None = timedelta()
    """None: until an operator closes the breaker."""


def ask(breaker: Breaker, probe: str, settings: BreakerSettings, now: datetime) -> tuple[Entry, Breaker]:
    """Decide whether a caller may call: unless the breaker is clean, one call at a time is let through."""
    if breaker.clean:
        return "go", breaker
    if breaker.holds_at(now):
        return "held", breaker
    # A probe that ends later than `patience` from now was granted before the clock was set back: ignore it.
    if breaker.probe_until is not None and now < breaker.probe_until <= now + settings.patience:
        return "wait", breaker
    return "probe", replace(breaker, probe=probe, probe_until=now + settings.patience)


def answered(
    breaker: Breaker, probe: str | None, answer: Answer, settings: BreakerSettings, now: datetime
) -> Breaker:
    """Return the breaker after the answer to a call; `probe` is the caller's probe, None if it had none."""
    own = probe is not None and probe == breaker.probe
    if own:
        breaker = replace(breaker, probe=None, probe_until=None)
    if answer.pushed_back:
        after = _pushed_back(breaker, answer, settings, now, own=own)
        return after if after.forced else replace(after, failed_jobs=_with_job(after.failed_jobs, answer))
    # The call may have started before the operator opened the breaker, so a good answer ends no forced hold.
    if not answer.good or (breaker.forced and breaker.holds_at(now)):
        return breaker
    return Breaker(name=breaker.name)


def _pushed_back(
    breaker: Breaker, answer: Answer, settings: BreakerSettings, now: datetime, *, own: bool
) -> Breaker:
    if breaker.holds_at(now):
        # The call started before the hold, so its answer can only lengthen the hold.
        if breaker.forced or breaker.until is None:
            return breaker
        return replace(breaker, until=max(breaker.until, now + _bounded(answer.retry_after)))
    if breaker.state != "closed":
        # Only the probe counts; the late answer of an earlier call is no second failure of the same probe. A
        # job that was pushed back before shows nothing new.
        holds = breaker.holds + (own and answer.job_id not in breaker.failed_jobs)
        until = now + settings.held_for(holds, answer.retry_after)
        return replace(breaker, holds=holds, until=until, forced=False)
    lapsed = breaker.counted_from is None or now - breaker.counted_from > settings.window
    if lapsed:
        return replace(breaker, failures=1, failed_jobs=(), counted_from=now)
    failures = breaker.failures + (answer.job_id not in breaker.failed_jobs)
    if failures < settings.failures:
        return replace(breaker, failures=failures)
    status = "" if answer.status is None else f", the last with status {answer.status}"
    return Breaker(
        name=breaker.name,
        state="open",
        failures=failures,
        failed_jobs=breaker.failed_jobs,
        counted_from=breaker.counted_from,
        opened_at=now,
        until=now + settings.held_for(0, answer.retry_after),
        reason=f"{failures} jobs in a row were pushed back{status}",
    )


def _with_job(jobs: tuple[str, ...], answer: Answer) -> tuple[str, ...]:
    """Return the newest jobs that were pushed back, with that of `answer`; an answer may name none."""
    return jobs if not answer.job_id or answer.job_id in jobs else (*jobs, answer.job_id)[-_MOST_JOBS:]


def has_failed(job: Job) -> bool:
    """Whether an earlier run of a job failed or was rate limited: then another job probes better."""
    return job.waits > 0 or job.error is not None


def opened(breaker: Breaker, until: datetime | None, reason: str, now: datetime) -> Breaker:
    """Return the breaker after an operator opened it; `until=None` keeps it open until it is closed."""
    since = breaker.opened_at if breaker.state != "closed" else now
    forced = Breaker(name=breaker.name, state="open", opened_at=since, until=until, forced=True)
    return replace(
        forced,
        reason=reason,
        failures=breaker.failures,
        failed_jobs=breaker.failed_jobs,
        counted_from=breaker.counted_from,
    )


def closed(breaker: Breaker) -> Breaker:
    """Return the breaker after an operator closed it."""
    return Breaker(name=breaker.name)


def answer_of(outcome: Outcome, job_id: str = "") -> Answer:
    """Return what the outcome of a job's attempt shows of the provider that it called.

    A rate limit and a status of 500 or more push back. Success and other statuses show that it is healthy,
    except 408 and 425, which show nothing. The rest (a bug, a time-out, a cancellation) shows nothing either:
    it may have happened before the call.
    """
    match outcome:
        case Succeeded() | Skip():
            return _GOOD
        case RateLimited(after, error):
            refused = ErrorRecord.of(error).status or _TOO_MANY_REQUESTS
            return Answer(pushed_back=True, retry_after=_span(after), status=refused, job_id=job_id)
        case Failed(error, after=after):
            status = ErrorRecord.of(error).status
            if status is None or status in _NO_WORD:
                return _NOTHING
            if status >= _FIRST_SERVER_ERROR or status == _TOO_MANY_REQUESTS:
                return Answer(pushed_back=True, retry_after=_span(after), status=status, job_id=job_id)
            return _GOOD
    return _NOTHING


_GOOD = Answer(good=True)
_NOTHING = Answer()


def check_provider(name: Any) -> str:
    """Return a provider's name; raise InvalidSetting if it is no valid text or begins with `QUEUE`."""
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
    """Return the settings of a breaker: its own, else those of the name before its last colon, and so on."""
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
        # The handler gave an invalid delay; the provider has pushed back all the same.
        return None
