"""How a job type makes the keys of its jobs: from a template, a notification, or all arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from onward.core.inputs.duration import Duration, duration, written
from onward.core.jobs.job import NewJob
from onward.core.jobs.keys import (
    bucket_start,
    job_key,
    key_from_template,
    notification_key,
    template_fields,
)
from onward.core.policy.category import Lifetime
from onward.core.policy.derived_keys import due, lifetime_past
from onward.core.policy.policies import Policies
from onward.core.secrets.names import is_secret_name
from onward.errors import InvalidJob, InvalidSetting
from onward.handlers.signature import Signature

KeyMaker = Callable[[NewJob], str]


@dataclass(frozen=True, slots=True)
class NotificationKey:
    """One notification for each org, recipient, template, content and bucket of time.

    `recipient` and `template` are names of arguments. If `template` is None, the job type is used
    instead.
    """

    recipient: str
    template: str | None = None
    bucket: Duration = "1h"


@dataclass(frozen=True, slots=True)
class NotificationKeys:
    """Makes the keys of notifications; each key is held at least to the end of its bucket."""

    recipient: str
    template: str | None
    length: timedelta
    signature: Signature

    def __call__(self, new: NewJob) -> str:
        """Return the key of one notification."""
        arguments = self.signature.effective(new.payload)
        kind = new.job_type if self.template is None else _text(new, self.template, arguments)
        recipient = _text(new, self.recipient, arguments)
        start = bucket_start(due(new, datetime.now(UTC)), self.length)
        return notification_key(new.org_id, recipient, kind, arguments, start)

    def lifetime(self, new: NewJob, policies: Policies) -> Lifetime | None:
        """Return how long a key is held: at least to the end of its bucket."""
        now = datetime.now(UTC)
        end = bucket_start(due(new, now), self.length) + self.length
        return lifetime_past(end, new, policies, now)


@dataclass(frozen=True, slots=True)
class ArgumentKeys:
    """Makes the keys of jobs of all their arguments."""

    signature: Signature

    def __call__(self, new: NewJob) -> str:
        """Return the key of one job."""
        return job_key(new.job_type, new.org_id, new.project_id, self.signature.effective(new.payload))


def key_maker(name: str, options: Mapping[str, Any], signature: Signature) -> KeyMaker | None:
    """Return the function that makes a job type's keys, or None if its jobs have none.

    Raise InvalidSetting if a key field is not an argument.
    """
    template, notification = options.get("key"), options.get("notification_key")
    if template is not None and notification is not None:
        raise InvalidSetting(f"job type {name!r}: key and notification_key are both set; give one of them")
    if template is not None:
        maker = _of_template(name, template, signature)
        _refuse_secrets(name, "key", template_fields(template), options)
        return maker
    if notification is not None:
        maker = _of_notification(name, notification, signature)
        _refuse_secrets(name, "notification_key", (notification.recipient, notification.template), options)
        return maker
    if options.get("unique") is not None:
        return ArgumentKeys(signature)
    return None


def _of_template(name: str, template: object, signature: Signature) -> KeyMaker:
    if not isinstance(template, str) or not template:
        raise InvalidSetting(f"job type {name!r}: key is {template!r:.80}; give a text such as 'sync_{{id}}'")
    for field in template_fields(template):
        _check_argument(name, "key", field, signature)
    return lambda new: key_from_template(template, signature.effective(new.payload))


def _of_notification(name: str, declared: object, signature: Signature) -> KeyMaker:
    if not isinstance(declared, NotificationKey):
        raise InvalidSetting(
            f"job type {name!r}: notification_key is {declared!r:.80}; give NotificationKey(recipient=…)"
        )
    recipient, template = declared.recipient, declared.template
    length = duration("bucket", declared.bucket)
    if length < timedelta(seconds=1):
        raise InvalidSetting(
            f"job type {name!r}: bucket is {written(declared.bucket)}; give a second or more"
        )
    for field in (recipient, template):
        if field is not None:
            _check_argument(name, "notification_key", field, signature)
    return NotificationKeys(recipient, template, length, signature)


def _check_argument(name: str, option: str, field: str, signature: Signature) -> None:
    """Raise InvalidSetting if a key uses an argument that does not exist."""
    if field not in signature.names and not signature.open:
        near = get_close_matches(field, signature.names, 1)
        advice = f'Did you mean "{near[0]}"?' if near else f"It is {signature.text}."
        raise InvalidSetting(f'job type {name!r}: {option} needs "{field}", which is no argument. {advice}')


def _refuse_secrets(name: str, option: str, fields: Iterable[str | None], options: Mapping[str, Any]) -> None:
    """Raise InvalidSetting for a key made of a secret: keys are stored, shown and logged as they are."""
    secret = next((field for field in fields if field is not None and is_secret_name(field)), None)
    if secret is not None and options.get("secrets") != "allow":
        raise InvalidSetting(
            f'job type {name!r}: {option} is made of "{secret}", which is the name of a secret, and a key is '
            "stored and shown as it is; make it of another argument, or set the option secrets to 'allow'"
        )


def _text(new: NewJob, field: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(field)
    if value is None or value == "" or isinstance(value, dict | list):
        raise InvalidJob(
            f"the key of {new.job_type} needs the argument {field!r}, which is {value!r:.80}; give some text"
        )
    return str(value)
