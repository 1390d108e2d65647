"""The options of one enqueue besides its arguments, and the defaults of a job type for all its enqueues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, cast
from uuid import UUID

import msgspec

from onward.core.flows.flow import Needs, OnFailure, check_needs
from onward.core.inputs.checks import not_negative
from onward.core.inputs.duration import Duration
from onward.core.jobs.actor import Actor
from onward.core.jobs.job import JobState, Merge, NewJob
from onward.core.limits.limit import Limit, Per, limit_key
from onward.core.policy.category import OnConflict
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.schedules.schedule import Overlap
from onward.core.schedules.timing import Missed
from onward.core.secrets.secret_policy import SecretPolicy
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidJob, InvalidSetting
from onward.handlers.bursts import Burst, take_burst
from onward.handlers.handler import Executor, Provider
from onward.handlers.handles.batch_handle import BatchHandle, read_batch
from onward.handlers.handles.flow_handle import After, read_after
from onward.handlers.job_keys import ArgumentKeys, KeyMaker, NotificationKey, NotificationKeys
from onward.origin import filled

_MEANT = {
    **dict.fromkeys(("timezone", "time_zone", "zone"), "tz"),
    **dict.fromkeys(("retries", "max_retries", "max_tries", "attempts"), "max_attempts"),
    **dict.fromkeys(("countdown", "defer", "wait"), "delay"),
    **dict.fromkeys(("eta", "scheduled_at", "at", "start_at"), "run_at"),
}


# Options that are fields of a job without conversion. Most enqueues use no others, and take a faster path.
_UNCONVERTED = frozenset({
    "key", "org_id", "project_id", "request_id", "correlation_id", "subject", "traceparent", "parent_id",
    "queue", "max_attempts",
})  # fmt: skip


# Fields of a job that a job type may set for all its enqueues, besides what it makes of each payload.
_DECLARED = (
    "category", "queue", "priority", "max_attempts", "timeout", "deadline", "unique", "on_conflict",
    "reset_from", "merge",
)  # fmt: skip


class Options(TypedDict, total=False):
    """The options of `.using()`; None is the same as leaving an option out."""

    tx: object
    run_at: datetime | None
    delay: Duration | None
    priority: int
    queue: str | None
    key: str | None
    unique: Duration | Literal["active", "forever"] | None
    on_conflict: OnConflict | None
    reset_from: Collection[str] | None
    debounce: Duration | None
    debounce_max: Duration | None
    throttle: Duration | None
    org_id: str | None
    project_id: str | None
    actor: str | tuple[str, str] | None
    request_id: str | None
    correlation_id: str | None
    subject: str | None
    tags: Sequence[str] | None
    max_attempts: int | None
    timeout: Duration | None
    deadline: datetime | Duration | None
    traceparent: str | None
    parent_id: str | None
    batch: BatchHandle | str | UUID | None
    after: After | None
    after_needs: Needs | None
    after_failure: OnFailure | None


class Defaults(TypedDict, total=False):
    """The options of `@app.job()`."""

    name: str
    purpose: str
    created_by: str
    triggered_by: str | Sequence[str]
    enabled: bool
    category: str
    queue: str
    priority: int
    timeout: Duration
    max_attempts: int
    deadline: Duration
    executor: Executor
    memory: int
    retry: RetryPolicy
    audit_action: str | Mapping[str, str]
    key: str
    notification_key: NotificationKey
    unique: Duration | Literal["active", "forever"]
    on_conflict: OnConflict
    reset_from: Collection[str]
    coalesce: Merge
    debounce: Duration
    debounce_max: Duration
    throttle: Duration
    secrets: SecretPolicy
    secrets_reason: str
    provider: Provider
    limit: int | Per | Limit
    cron: str
    every: Duration
    tz: str
    jitter: Duration
    missed: Missed
    overlap: Overlap
    warm_up: Duration


class Request(msgspec.Struct, frozen=True):
    """A job without its payload, the transaction to store it in, and the time from enqueue to deadline.

    `key_of` makes the key of a job that has none; `limit` is the limit whose permit the job needs.
    """

    new: NewJob
    tx: object = None
    allowed: timedelta | None = None
    key_of: KeyMaker | None = None
    limit: Limit | None = None
    burst: Burst | None = None

    def using(self, options: Mapping[str, Any]) -> Request:
        """Return this request with these options, which replace those of earlier calls."""
        if options.keys() <= _UNCONVERTED:
            return msgspec.structs.replace(self, new=msgspec.structs.replace(self.new, **options))
        check_names("using()", options, Options.__annotations__)
        changes = dict(options)
        tx = changes.pop("tx", self.tx)
        allowed = self.allowed
        if "deadline" in changes:
            allowed, changes["deadline"] = _deadline(changes["deadline"])
        for name in changes.keys() & {"delay", "timeout", "unique"}:
            changes[name] = _span(name, changes[name])
        # `delay` and `run_at` both set the start: the later call decides.
        if ("delay" in changes) != ("run_at" in changes):
            changes["run_at" if "delay" in changes else "delay"] = None
        if changes.get("reset_from") is not None:
            changes["reset_from"] = _states(changes["reset_from"])
        if changes.get("tags") is not None:
            changes["tags"] = _tags(changes["tags"])
        _read_others(changes)
        for name in changes.keys() & {"priority", "on_conflict", "after_needs", "after_failure"}:
            if changes[name] is None:
                del changes[name]
        burst = take_burst(self.burst, changes)
        new = msgspec.structs.replace(self.new, **changes)
        check_needs(new.after_needs, new.after_failure)
        return msgspec.structs.replace(self, new=new, tx=tx, allowed=allowed, burst=burst)

    def build(self, payload: dict[str, Any], policies: Policies = DEFAULT_POLICIES) -> NewJob:
        """Return the job to be stored."""
        return self._finished(msgspec.structs.replace(self.new, payload=payload), policies)

    def for_runs(self) -> Request:
        """Return this request for the runs of a schedule, whose keys and deadlines come from occurrences."""
        return msgspec.structs.replace(self, allowed=None, key_of=None)

    def fill(self, new: NewJob, policies: Policies) -> NewJob:
        """Return a job of this type that was made without it, its unset fields filled in."""
        return self._finished(self.fill_fields(new), policies)

    def fill_fields(self, new: NewJob) -> NewJob:
        """Return the job with the type's own fields where it has none; without a key, deadline or limit."""
        unset = {
            name: value
            for name in _DECLARED
            if getattr(new, name) is None and (value := getattr(self.new, name)) is not None
        }
        return msgspec.structs.replace(new, typed=True, **unset)

    def _finished(self, new: NewJob, policies: Policies) -> NewJob:
        """Return the job with its deadline, key, burst and limit."""
        if self.allowed is not None and new.deadline is None:
            new = msgspec.structs.replace(new, deadline=datetime.now(UTC) + self.allowed)
        # A required contract makes keys of all arguments itself, with a bucket for a scheduled notification.
        derived = isinstance(self.key_of, ArgumentKeys) and policies.settings.contract == "required"
        keyed = self.key_of is not None and new.key is None and not derived
        if not keyed and self.limit is None:
            return new if self.burst is None else self.burst.applied(new, policies)
        # A key and a limit may both contain the org, which may be inherited.
        new = filled(new, policies)
        if self.key_of is not None and keyed:
            new = msgspec.structs.replace(new, key=self.key_of(new))
        if keyed and isinstance(self.key_of, NotificationKeys):
            new = msgspec.structs.replace(new, unique=self.key_of.lifetime(new, policies))
        if self.burst is not None:
            new = self.burst.applied(new, policies)
        if self.limit is None or new.limit_key is not None:
            return new
        return msgspec.structs.replace(new, limit_key=limit_key(self.limit, new))


def _read_others(changes: dict[str, Any]) -> None:
    """Replace the actor, the batch and the jobs to wait for by the fields of a job, in place."""
    if "actor" in changes:
        actor = changes.pop("actor")
        read = None if actor is None else Actor.of(actor, InvalidJob)
        changes["actor_type"] = None if read is None else read.type
        changes["actor_id"] = None if read is None else read.id
    if "batch" in changes:
        changes["batch_id"] = read_batch(changes.pop("batch"))
    if "after" in changes:
        changes["after"] = read_after(changes["after"])


def check_names(where: str, names: Collection[str], known: Collection[str]) -> None:
    """Raise InvalidSetting for an option that does not exist, with the closest known name."""
    for name in names:
        if name not in known:
            near = [_MEANT[name]] if _MEANT.get(name) in known else get_close_matches(name, known, 1)
            advice = f'Did you mean "{near[0]}"?' if near else f"There are {', '.join(known)}."
            raise InvalidSetting(f'{where} has no option "{name}". {advice}')


def _deadline(value: datetime | Duration | None) -> tuple[timedelta | None, datetime | None]:
    if value is None or isinstance(value, datetime):
        return None, value
    return not_negative("deadline", value, error=InvalidJob), None


def _span(name: str, value: Any) -> timedelta | str | None:
    if value is None or (name == "unique" and value in ("active", "forever")):
        return cast("str | None", value)
    return not_negative(name, value, error=InvalidJob)


def _states(value: object) -> frozenset[JobState]:
    try:
        if isinstance(value, Collection) and not isinstance(value, str):
            return frozenset(map(JobState, value))
    except ValueError:
        pass
    raise InvalidJob(f"reset_from is {value!r:.80}; give a set of states such as {{'dead'}}")


def _tags(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence | frozenset | set):
        raise InvalidJob(f"tags is {value!r:.80}; give a list of texts")
    return list(value)
