"""What one enqueue may say besides the arguments, and a definition for all enqueues of its job type."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, cast

import msgspec

from onward.ambient import filled
from onward.core.category import OnConflict
from onward.core.duration import Duration, duration
from onward.core.job import JobState, Merge, NewJob
from onward.core.retry import RetryPolicy
from onward.core.rules import DEFAULT_RULES, Rules
from onward.core.secret_policy import SecretPolicy
from onward.errors import InvalidJob, InvalidSetting
from onward.handlers.handler import Executor, Provider
from onward.handlers.keying import KeyMaker, NotificationKey

__all__ = ["Defaults", "Options", "Request", "check_names", "read_actor"]


class Options(TypedDict, total=False):
    """What `.using()` takes; None is the same as leaving it out."""

    tx: object
    run_at: datetime | None
    delay: Duration | None
    priority: int
    queue: str | None
    key: str | None
    unique: Duration | Literal["active", "forever"] | None
    on_conflict: OnConflict | None
    reset_from: Collection[str] | None
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


class Defaults(TypedDict, total=False):
    """What `@app.job()` takes."""

    name: str
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
    secrets: SecretPolicy
    secrets_reason: str
    provider: Provider


class Request(msgspec.Struct, frozen=True):
    """A job but for its payload, the transaction to store it in, and the time from enqueue to deadline.

    `key_of` makes the key of a job that was given none.
    """

    new: NewJob
    tx: object = None
    allowed: timedelta | None = None
    key_of: KeyMaker | None = None

    def using(self, options: Mapping[str, Any]) -> Request:
        """Give the same with these options; what an earlier call said about the same is replaced."""
        check_names("using()", options, Options.__annotations__)
        changes = dict(options)
        tx = changes.pop("tx", self.tx)
        allowed = self.allowed
        if "deadline" in changes:
            allowed, changes["deadline"] = _deadline(changes["deadline"])
        for name in changes.keys() & {"delay", "timeout", "unique"}:
            changes[name] = _span(name, changes[name])
        # The two say the same thing: the later call decides.
        if ("delay" in changes) != ("run_at" in changes):
            changes["run_at" if "delay" in changes else "delay"] = None
        if "actor" in changes:
            changes["actor_type"], changes["actor_id"] = read_actor(changes.pop("actor"))
        if changes.get("reset_from") is not None:
            changes["reset_from"] = _states(changes["reset_from"])
        if changes.get("tags") is not None:
            changes["tags"] = _tags(changes["tags"])
        for name in changes.keys() & {"priority", "on_conflict"}:
            if changes[name] is None:
                del changes[name]
        return Request(msgspec.structs.replace(self.new, **changes), tx, allowed, self.key_of)

    def build(self, payload: dict[str, Any], rules: Rules = DEFAULT_RULES) -> NewJob:
        """Give the job to be stored."""
        if self.allowed is None:
            new = msgspec.structs.replace(self.new, payload=payload)
        else:
            deadline = datetime.now(UTC) + self.allowed
            new = msgspec.structs.replace(self.new, payload=payload, deadline=deadline)
        if self.key_of is None or new.key is not None:
            return new
        # A key may name the org, which may be inherited.
        new = filled(new, rules)
        return msgspec.structs.replace(new, key=self.key_of(new))


def check_names(where: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse an option that does not exist, naming its nearest neighbour."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            advice = f'Did you mean "{near[0]}"?' if near else f"There are {', '.join(known)}."
            raise InvalidSetting(f'{where} has no option "{name}". {advice}')


def _deadline(value: datetime | Duration | None) -> tuple[timedelta | None, datetime | None]:
    if value is None or isinstance(value, datetime):
        return None, value
    return duration("deadline", value, error=InvalidJob), None


def _span(name: str, value: Any) -> timedelta | str | None:
    if value is None or (name == "unique" and value in ("active", "forever")):
        return cast("str | None", value)
    return duration(name, value, error=InvalidJob)


def read_actor(value: object) -> tuple[str | None, str | None]:
    """Read an actor's type and id from `type:id` or a tuple of the two."""
    match value:
        case None:
            return None, None
        case str() if all(parts := value.partition(":")):
            return parts[0], parts[2]
        case (str(kind), str(name)):
            return kind, name
    raise InvalidJob(f"actor is {value!r:.80}; give 'type:id', such as 'user:42', or a tuple of the two")


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
