"""Every error that Onward raises on purpose: what was wrong, with which value, and what to do.

OnwardError
├── InvalidJob (ValueError)            a field of a job is out of its range
│   ├── InvalidArguments               the arguments do not fit the handler's signature
│   ├── ContractBroken                 what the application's rules ask of a job is missing or wrong
│   └── PayloadRejected                the payload is not storable JSON: says the path and the value
│       ├── PayloadTooLarge            the payload is over its size limit
│       └── SecretInPayload            the payload, the key or a tag holds a secret: says where
├── InvalidSetting (ValueError)        an option, a URL or an argument makes no sense
├── MissingExtra                       a driver is not installed: names the `pip install`
├── DuplicateJob                       `on_conflict="raise"` met a job that holds the key
├── JobNotFound (LookupError)          no such job, for this org
├── JobNotEnded (TimeoutError)         a result was asked for before there was one
├── WaitTimedOut (TimeoutError)        `ctx.wait_for()` had no signal in time
├── JobFailed                          a result was asked for, and the job is dead or cancelled
├── AlreadyResolved                    a dead job was replayed, discarded or fixed before
├── NotAllowed                         a client or a handler asked for what its org or category may not
├── BatchNotFound (LookupError)        no such batch, for this org
├── BatchClosed                        a job was added to a batch that takes no more
├── ScheduleNotFound (LookupError)     no schedule has this name
├── EffectNotFound (LookupError)       no such effect of a job is recorded, for this org
├── AuditBroken                        the chain of the audit is not as it was left
├── ArtifactNotFound (LookupError)     no such artifact, for this org
├── ArtifactCorrupt                    the content of an artifact is not what was stored
├── InvalidLink                        a signed link is not ours, was changed, or has expired
├── LeaseLost                          another worker holds the job, or it has ended
├── WorkerLost                         the worker is not registered, or its lease ran out
├── TransactionNotOpen                 `within()` was given a connection that would commit by itself
├── TransactionOpen                    `ctx.transaction()` was asked for where one is open, or is over
├── UnsupportedConnection (TypeError)  `within()` was given something it can't use
│   └── WrongDatabase                  … a connection to the other kind of database
└── StoreError                         the database, not the caller
    ├── SchemaMissing                  Onward's tables are not there
    ├── SchemaBehind                   the tables are older than the code
    ├── SchemaTooNew                   the tables are newer than the code
    ├── StoreUnreachable               can't connect, or the connection broke
    ├── StoreBusy                      another writer held the database for too long
    ├── StorageFull                    no space left; nothing was acknowledged
    └── StoreClosed                    the store was closed, or belongs to the parent of a fork

Each class carries the exit code of the command line, the status of the HTTP API and a stable code.
"""

from __future__ import annotations

__all__ = [
    "AlreadyResolved",
    "ArtifactCorrupt",
    "ArtifactNotFound",
    "AuditBroken",
    "BatchClosed",
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
    "WrongDatabase",
]


class OnwardError(Exception):
    """The root: `except OnwardError` catches all that Onward raises on purpose."""

    exit_code = 1
    status = 500
    code = "ON-000"


class InvalidJob(OnwardError, ValueError):
    """A field of a job is out of its range; nothing was written."""

    exit_code, status, code = 2, 422, "ON-JOB-001"


class InvalidArguments(InvalidJob):
    """The arguments do not fit the signature of the job type's function; the message shows it."""

    code = "ON-ARG-001"


class ContractBroken(InvalidJob):
    """The job lacks what the application's rules ask for, or goes where or when they do not allow."""

    code = "ON-JOB-005"


class PayloadRejected(InvalidJob):
    """The payload is not JSON that would come back equal; says the path and the value."""

    code = "ON-PAY-001"


class PayloadTooLarge(PayloadRejected):
    """The payload is over the size limit of its category."""

    status, code = 413, "ON-PAY-002"


class SecretInPayload(PayloadRejected):
    """The payload, the key, the subject or a tag holds a secret; says where and how it was known."""

    code = "ON-PAY-003"

    def __init__(self, path: str, kind: str, advice: str | None = None) -> None:
        """Name the place, what told that there is a secret, and what else than a reference may be meant."""
        place = f"payload at {path}" if path.startswith("$") else path
        advice = advice or (
            "if it has to be there, say so with the options secrets ('allow') and secrets_reason of its job "
            "type"
        )
        super().__init__(
            f"{place} holds a secret ({kind}); store it elsewhere and pass a reference, or, {advice}"
        )
        self.path = path
        self.kind = kind


class InvalidSetting(OnwardError, ValueError):
    """An option, a URL or an argument makes no sense."""

    exit_code, status, code = 2, 400, "ON-SET-001"


class MissingExtra(OnwardError):
    """A driver is not installed; the message names the `pip install`."""

    exit_code, code = 2, "ON-SET-002"


class DuplicateJob(OnwardError):
    """A job holds the key already, and the caller asked to be told by `on_conflict="raise"`."""

    exit_code, status, code = 4, 409, "ON-KEY-001"

    def __init__(self, key: str, job_id: str | None) -> None:
        """Name the key and the job that holds it; None if that is another job of the same call."""
        holder = "given twice in one call" if job_id is None else f"held by job {job_id}"
        advice = "give it once" if job_id is None else "wait for it"
        super().__init__(f"key {key!r} is {holder}; {advice}, or enqueue with on_conflict='return'")
        self.key = key
        self.job_id = job_id


class JobNotFound(OnwardError, LookupError):
    """No such job, or it belongs to another org."""

    exit_code, status, code = 3, 404, "ON-JOB-002"


class JobNotEnded(OnwardError, TimeoutError):
    """A job had not ended when the time to wait for it was over."""

    status, code = 409, "ON-JOB-003"


class WaitTimedOut(OnwardError, TimeoutError):
    """A handler waited for a signal that did not come in time."""

    exit_code, status, code = 1, 408, "ON-WAIT-001"


class JobFailed(OnwardError):
    """There is no result: the job is dead or was cancelled."""

    exit_code, status, code = 6, 409, "ON-JOB-004"

    def __init__(self, message: str, job_id: str) -> None:
        """Say what became of the job, and keep its id."""
        super().__init__(message)
        self.job_id = job_id


class AlreadyResolved(OnwardError):
    """Somebody has replayed, discarded or fixed this death of a job before."""

    exit_code, status, code = 4, 409, "ON-JOB-006"


class NotAllowed(OnwardError):
    """A client or a job of one org asked for what concerns others, or a job for what its category may not."""

    exit_code, status, code = 4, 403, "ON-ORG-001"


class BatchNotFound(OnwardError, LookupError):
    """No such batch, or none that this client may see."""

    exit_code, status, code = 3, 404, "ON-BAT-001"


class BatchClosed(OnwardError):
    """A job was added to a batch that was closed, cancelled, or has ended."""

    exit_code, status, code = 4, 409, "ON-BAT-002"


class ScheduleNotFound(OnwardError, LookupError):
    """No schedule has this name, or it was removed."""

    exit_code, status, code = 3, 404, "ON-SCD-001"


class EffectNotFound(OnwardError, LookupError):
    """No effect of that name is recorded for the job, or the job belongs to another org."""

    exit_code, status, code = 3, 404, "ON-EFF-001"


class AuditBroken(OnwardError):
    """The chain of the audit is not as it was left: somebody else has written to it."""

    code = "ON-AUD-001"


class ArtifactNotFound(OnwardError, LookupError):
    """No such artifact, it has expired, or it belongs to another org."""

    exit_code, status, code = 3, 404, "ON-ART-001"


class ArtifactCorrupt(OnwardError):
    """The content of an artifact is gone, or has another checksum than the one that was stored."""

    exit_code, code = 6, "ON-ART-002"


class InvalidLink(OnwardError):
    """A signed link is not ours, was changed, has expired, or leads to nothing; it is never said which."""

    exit_code, status, code = 3, 404, "ON-ART-003"


class LeaseLost(OnwardError):
    """Another worker holds the job, or it has ended; the refused write changed nothing."""

    exit_code, status, code = 4, 409, "ON-LEASE-001"


class WorkerLost(OnwardError):
    """The worker is not registered, or its lease ran out and its jobs were given to others."""

    exit_code, status, code = 4, 409, "ON-LEASE-002"


class TransactionNotOpen(OnwardError):
    """The connection given to `within()` would commit each statement by itself."""

    exit_code, code = 2, "ON-TX-001"


class TransactionOpen(OnwardError):
    """`ctx.transaction()` begins and commits a transaction: it can't inside another, nor twice in one run."""

    exit_code, code = 2, "ON-TX-004"


class UnsupportedConnection(OnwardError, TypeError):
    """`within()` can't use this object; the message lists what it accepts."""

    exit_code, code = 2, "ON-TX-002"


class WrongDatabase(UnsupportedConnection):
    """The connection leads to another kind of database than the client's store."""

    code = "ON-TX-003"


class StoreError(OnwardError):
    """The database, not the caller, is in the way."""

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
    """No space is left; what was not acknowledged was not stored."""

    status, code = 507, "ON-DB-006"


class StoreClosed(StoreError):
    """The store was closed, or was opened by the parent of this process."""

    code = "ON-DB-007"
