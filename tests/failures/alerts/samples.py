"""Alerts to send."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from onward.results import Alert

__all__ = ["AT", "alert"]

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)

_ALERT = Alert(
    id="d1f3a2b4c5d6.1",
    kind="integration_error",
    severity="problem",
    title="crm.sync_contact died: unrecoverable",
    fingerprint="d1f3a2b4c5d6",
    count=1,
    total=1,
    first_at=AT,
    last_at=AT,
    job_id="0199aaaa-0000-7000-8000-000000000001",
    job_type="crm.sync_contact",
    queue="q:default",
    attempt=1,
    max_attempts=6,
    error_class="MissingScopes",
    message="This app hasn't been granted all required scopes",
    reason="unrecoverable",
    guidance="Manual intervention may be required.",
    commands=("onward dead show d1f3a2b4c5d6",),
)


def alert(**changes: Any) -> Alert:
    return replace(_ALERT, **changes)
