"""Every error that Onward raises on purpose: what was wrong, with which value, and what to do.

OnwardError
├── InvalidJob (ValueError)            a field of a job is out of its range
│   ├── InvalidArguments               the arguments do not fit the handler's signature
│   ├── ContractBroken                 a field that the application's contract requires is missing or wrong
│   └── PayloadRejected                the payload is not storable JSON; the message has path and value
│       ├── PayloadTooLarge            the payload is over its size limit
│       └── SecretInPayload            the payload, the key or a tag holds a secret; the message says where
├── InvalidSetting (ValueError)        an option, a URL or an argument makes no sense
├── MissingExtra                       a driver is not installed; the message has the `pip install`
├── DuplicateJob                       another job holds the key, and `on_conflict="raise"`
├── JobNotFound (LookupError)          no such job, for this org
├── JobNotEnded (TimeoutError)         the job of a requested result has not ended
├── WaitTimedOut (TimeoutError)        `ctx.wait_for()` received no signal in time
├── JobFailed                          the job of a requested result is dead or cancelled
├── JobNotScheduled                    the job does not wait for its time
├── AlreadyResolved                    a dead job was replayed, discarded or fixed before
├── NotAllowed                         the client's org or the job's category does not allow this
├── BatchNotFound (LookupError)        no such batch, for this org
├── BatchFailed                        some jobs of a batch whose result was requested did not succeed
├── BatchClosed                        a job was added to a batch that takes no more
├── ScheduleNotFound (LookupError)     no schedule has this name
├── EffectNotFound (LookupError)       no such effect of a job is recorded, for this org
├── AuditBroken                        the hash chain of the audit was changed from outside
├── ArtifactNotFound (LookupError)     no such artifact, for this org
├── ArtifactCorrupt                    the content of an artifact is not what was stored
├── InvalidLink                        a signed link is forged, was changed, or has expired
├── LeaseLost                          another worker holds the job, or it has ended
├── WorkerNotFound (LookupError)       no worker of this id is known
├── WorkerLost                         the worker is not registered, or its lease ran out
├── TransactionNotOpen                 `within()` was given a connection that would commit by itself
├── TransactionOpen                    `ctx.transaction()` was called inside a transaction, or twice
├── UnsupportedConnection (TypeError)  `within()` was given an object it can't use
│   └── WrongDatabase                  … a connection to the other kind of database
└── StoreError                         the database failed, not the caller
    ├── SchemaMissing                  Onward's tables are not there
    ├── SchemaBehind                   the tables are older than the code
    ├── SchemaTooNew                   the tables are newer than the code
    ├── StoreUnreachable               can't connect, or the connection broke
    ├── StoreBusy                      another writer held the database for too long
    ├── StorageFull                    no space left; nothing was acknowledged
    └── StoreClosed                    the store was closed, or belongs to the parent of a fork

Each class carries the exit code of the command line, the status of the HTTP API and a stable code. An error
is made of its message and facts, so that it can be sent as JSON and made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

__all__ = [
    "AlreadyResolved",
    "ArtifactCorrupt",
    "ArtifactNotFound",
    "AuditBroken",
    "BatchClosed",
    "BatchFailed",
    "BatchNotFound",
    "ContractBroken",
    "DuplicateJob",
    "EffectNotFound",
    "InvalidArguments",
    "InvalidJob",
    "InvalidLink",
    "InvalidSetting",
    "JobFailed",
    "JobNotEnded",
    "JobNotFound",
    "JobNotScheduled",
    "LeaseLost",
    "MissingExtra",
    "NotAllowed",
    "OnwardError",
    "PayloadRejected",
    "PayloadTooLarge",
    "ScheduleNotFound",
    "SchemaBehind",
    "SchemaMissing",
    "SchemaTooNew",
    "SecretInPayload",
    "StorageFull",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreUnreachable",
    "TransactionNotOpen",
    "TransactionOpen",
    "UnsupportedConnection",
    "WaitTimedOut",
    "WorkerLost",
    "WorkerNotFound",
    "WrongDatabase",
]


class OnwardError(Exception):
    """The root: `except OnwardError` catches every error that Onward raises on purpose.

    Every error is made of its message and its facts, which are plain values and attributes of the error.
    """

    exit_code = 1
    status = 500
    code = "ON-000"

    def __init__(self, message: str = "", **facts: Any) -> None:
        """Take the message, and facts such as the id of the job that it is about."""
        super().__init__(message)
        self.facts = facts
        self.__dict__.update(facts)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain values, from which `from_dict` makes it again."""
        name, facts = type(self).__name__, dict(self.facts)
        return {"error": name, "code": self.code, "message": str(self), "facts": facts}

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> OnwardError:
        """Return the error that `as_dict` described; for an unknown class, an OnwardError of its code."""
        name = described.get("error")
        known: type[OnwardError] | None = globals()[name] if name in __all__ else None
        error = (known or OnwardError)(str(described.get("message", "")))
        if isinstance(facts := described.get("facts"), dict):
            # Not by keyword: another version may describe a fact of any name.
            error.__dict__ |= facts | {"facts": dict(facts)}
        if known is None:
            error.code = str(described.get("code", OnwardError.code))
        return error


class InvalidJob(OnwardError, ValueError):
    """A field of a job is out of its range; nothing was written."""

    exit_code, status, code = 2, 422, "ON-JOB-001"


class InvalidArguments(InvalidJob):
    """The arguments do not fit the signature of the handler; the message shows the signature."""

    code = "ON-ARG-001"


class ContractBroken(InvalidJob):
    """The job lacks a field that the contract requires, or its queue or time is not allowed."""

    code = "ON-JOB-005"


class PayloadRejected(InvalidJob):
    """The payload does not survive a round trip through JSON; the message has the path and the value."""

    code = "ON-PAY-001"


class PayloadTooLarge(PayloadRejected):
    """The payload is over the size limit of its category."""

    status, code = 413, "ON-PAY-002"


class SecretInPayload(PayloadRejected):
    """The payload, the key, the subject or a tag holds a secret; the message has its place and kind."""

    code = "ON-PAY-003"
    path: str
    kind: str

    @classmethod
    def at(cls, path: str, kind: str, advice: str | None = None) -> Self:
        """Return the error for a secret by its place, its kind, and advice for a job that needs it there."""
        place = f"payload at {path}" if path.startswith("$") else path
        advice = advice or (
            "if it must be there, give its job type the policy 'allow' for secrets, with secrets_reason="
        )
        message = f"{place} holds a secret ({kind}); store it elsewhere and pass a reference, or, {advice}"
        return cls(message, path=path, kind=kind)


class InvalidSetting(OnwardError, ValueError):
    """An option, a URL or an argument makes no sense."""

    exit_code, status, code = 2, 400, "ON-SET-001"


class MissingExtra(OnwardError):
    """A driver is not installed; the message has the `pip install` command."""

    exit_code, code = 2, "ON-SET-002"


class DuplicateJob(OnwardError):
    """Another job holds the key, and the caller chose `on_conflict="raise"`."""

    exit_code, status, code = 4, 409, "ON-KEY-001"
    key: str
    job_id: str | None

    @classmethod
    def of(cls, key: str, job_id: str | None) -> Self:
        """Return the error for a key and the job that holds it; None if that is a job of the same call."""
        holder = "given twice in one call" if job_id is None else f"held by job {job_id}"
        advice = "give it once" if job_id is None else "wait for it"
        message = f"key {key!r} is {holder}; {advice}, or enqueue with on_conflict='return'"
        return cls(message, key=key, job_id=job_id)


class JobNotFound(OnwardError, LookupError):
    """No such job, or it belongs to another org."""

    exit_code, status, code = 3, 404, "ON-JOB-002"


class WorkerNotFound(OnwardError, LookupError):
    """No worker of this id has registered, or its row has been pruned."""

    exit_code, status, code = 3, 404, "ON-WRK-001"


class JobNotEnded(OnwardError, TimeoutError):
    """The job or batch had not ended when the wait for it timed out."""

    status, code = 409, "ON-JOB-003"


class WaitTimedOut(OnwardError, TimeoutError):
    """A handler waited for a signal that did not come in time."""

    exit_code, status, code = 1, 408, "ON-WAIT-001"


class JobFailed(OnwardError):
    """There is no result: the job is dead or was cancelled."""

    exit_code, status, code = 6, 409, "ON-JOB-004"
    job_id: str


class JobNotScheduled(OnwardError):
    """The job does not wait for its time: it is ready, runs, waits for something else, or has ended."""

    exit_code, status, code = 4, 409, "ON-JOB-007"


class AlreadyResolved(OnwardError):
    """The death of this job was replayed, discarded or fixed before."""

    exit_code, status, code = 4, 409, "ON-JOB-006"


class NotAllowed(OnwardError):
    """The action concerns another org, or the job's category does not allow it."""

    exit_code, status, code = 4, 403, "ON-ORG-001"


class BatchNotFound(OnwardError, LookupError):
    """No such batch, or this client may not see it."""

    exit_code, status, code = 3, 404, "ON-BAT-001"


class BatchClosed(OnwardError):
    """A job was added to a batch that was closed, cancelled, or has ended."""

    exit_code, status, code = 4, 409, "ON-BAT-002"


class BatchFailed(OnwardError):
    """The batch has ended, and some of its jobs are dead or were cancelled."""

    exit_code, status, code = 6, 409, "ON-BAT-003"
    batch_id: str


class ScheduleNotFound(OnwardError, LookupError):
    """No schedule has this name, or it was removed."""

    exit_code, status, code = 3, 404, "ON-SCD-001"


class EffectNotFound(OnwardError, LookupError):
    """No effect of that name is recorded for the job, or the job belongs to another org."""

    exit_code, status, code = 3, 404, "ON-EFF-001"


class AuditBroken(OnwardError):
    """The hash chain of the audit does not match its rows: it was changed other than by Onward."""

    code = "ON-AUD-001"


class ArtifactNotFound(OnwardError, LookupError):
    """No such artifact, it has expired, or it belongs to another org."""

    exit_code, status, code = 3, 404, "ON-ART-001"


class ArtifactCorrupt(OnwardError):
    """The content of an artifact is gone, or its checksum differs from the stored one."""

    exit_code, code = 6, "ON-ART-002"


class InvalidLink(OnwardError):
    """A signed link is forged, was changed, has expired, or leads to nothing; the error never says which."""

    exit_code, status, code = 3, 404, "ON-ART-003"


class LeaseLost(OnwardError):
    """Another worker holds the job, or it has ended; the refused write changed nothing."""

    exit_code, status, code = 4, 409, "ON-LEASE-001"


class WorkerLost(OnwardError):
    """The worker is not registered, or its lease ran out and its jobs were given to other workers."""

    exit_code, status, code = 4, 409, "ON-LEASE-002"


class TransactionNotOpen(OnwardError):
    """The connection given to `within()` is in no transaction: it would commit each statement by itself."""

    exit_code, code = 2, "ON-TX-001"


class TransactionOpen(OnwardError):
    """`ctx.transaction()` was called inside another transaction, or a second time in one run."""

    exit_code, code = 2, "ON-TX-004"


class UnsupportedConnection(OnwardError, TypeError):
    """`within()` can't use this object; the message lists what it accepts."""

    exit_code, code = 2, "ON-TX-002"


class WrongDatabase(UnsupportedConnection):
    """The connection is to a different kind of database than the client's store."""

    code = "ON-TX-003"


class StoreError(OnwardError):
    """The database failed, not the caller."""

    exit_code, status, code = 5, 503, "ON-DB-000"


class SchemaMissing(StoreError):
    """Onward's tables are not in this database."""

    code = "ON-DB-001"


class SchemaBehind(StoreError):
    """The tables are older than this version of Onward."""

    code = "ON-DB-002"


class SchemaTooNew(StoreError):
    """The tables are newer than this version of Onward."""

    code = "ON-DB-003"


class StoreUnreachable(StoreError):
    """The database can't be reached, or the connection broke."""

    code = "ON-DB-004"


class StoreBusy(StoreError):
    """Another writer held the database for longer than the time-out."""

    code = "ON-DB-005"


class StorageFull(StoreError):
    """No space is left; a write that was not acknowledged was not stored."""

    status, code = 507, "ON-DB-006"


class StoreClosed(StoreError):
    """The store was closed, or was opened by the parent of this process."""

    code = "ON-DB-007"
