"""The ledger of idempotency keys: which job holds each key, and until when."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from onward.core.jobs.ids import JobId

KeyStatus = Literal["pending", "running", "succeeded", "failed", "dead"]


class Key(msgspec.Struct, frozen=True):
    """One line of the ledger; `status` is None if the job was removed before a status could be kept.

    A reference is `job:<id>`, the job whose result or error can be read.
    """

    org_id: str | None
    project_id: str | None
    key: str
    job_id: JobId
    status: KeyStatus | None
    first_seen_at: datetime
    last_seen_at: datetime
    expires_at: datetime | None
    result_ref: str | None
    error_ref: str | None
