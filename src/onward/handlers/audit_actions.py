"""The names that a job type gives its audit events, besides their own names."""

from __future__ import annotations

from collections.abc import Mapping

from onward.core.inputs.fields import LONGEST, check_text
from onward.errors import InvalidSetting

_EVENTS = (
    "succeeded", "skipped", "failed", "deadlettered", "cancelled", "released", "snoozed", "parked",
    "rate_limited",
)  # fmt: skip


def read_actions(job_type: str, declared: str | Mapping[str, str] | None) -> dict[str, str] | None:
    """Read `audit_action=`: a name for success, or names by event, with or without their `job.`."""
    if declared is None:
        return None
    named = {"succeeded": declared} if isinstance(declared, str) else declared
    if not isinstance(named, Mapping):
        raise InvalidSetting(
            f"job type {job_type!r}: audit_action is {declared!r:.80}; give a name, or names by event"
        )
    actions: dict[str, str] = {}
    for event, action in named.items():
        short = str(event).removeprefix("job.")
        if short not in _EVENTS:
            raise InvalidSetting(
                f"job type {job_type!r}: audit_action names the event {event!r:.80}; "
                f"give one of {', '.join(_EVENTS)}"
            )
        check_text("audit_action", action, longest=LONGEST["job_type"])
        actions[f"job.{short}"] = action
    return actions
