"""How a job type is run: what a worker needs to know of it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from onward.core.jobs.job import Job, NewJob
from onward.core.jobs.job_types import DeclaredJobType
from onward.core.limits.limit import Limit
from onward.core.records.usage import Usage
from onward.core.schedules.schedule import NewSchedule
from onward.core.secrets.secret_policy import Secrets
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.core.work.retry import RetryPolicy
from onward.handlers.hooks.resources import Resource

Executor = Literal["async", "thread", "process"]

Provider = str | Callable[[Job], str | None]
"""The provider that a job type calls, whose breaker holds its jobs.

A name, or a function that returns the job's provider, or None if it calls none.
"""


@dataclass(frozen=True, slots=True)
class Handler:
    """The function of a job type, and how to call it.

    `arguments` checks a payload against the signature and returns keyword arguments; `fingerprint` tells
    signatures apart, and is None until the function is imported. `context` is the name of the parameter that
    takes the Context, `resources` are those of the parameters that take resources. `declared` is what the
    code says of the job type. `reference` is `module:qualname`, by which another process finds the job type.
    `load` imports a function that is not imported yet, and returns its handler.
    """

    job_type: str
    function: Callable[..., Any]
    executor: Executor
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]]
    template: NewJob
    reference: str
    fingerprint: str | None
    declared: DeclaredJobType
    context: str | None = None
    memory: int | None = None
    retry: RetryPolicy | None = None
    actions: Mapping[str, str] | None = None
    secrets: Secrets | None = None
    provider: Provider | None = None
    limit: Limit | None = None
    schedule: NewSchedule | None = None
    resources: Mapping[str, Resource[Any]] = field(default_factory=dict)
    load: Callable[[], Handler] | None = None


class Run(Protocol):
    """One attempt of a job, as its worker sees it; a Context is built on it."""

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        ...

    @property
    def cancel_reason(self) -> str | None:
        """Why the handler should give way; None while it should not."""
        ...

    @property
    def provider(self) -> Provider | None:
        """The provider that the job type calls; when calls to it fail, its breaker holds the jobs."""
        ...

    def wait_cancelled(self, timeout: float) -> bool:
        """Block until the handler should give way; False when `timeout` seconds are over."""
        ...

    def meter(self, used: Usage) -> None:
        """Record what the handler has used; may be called from any thread."""
        ...

    @property
    def last_report(self) -> Report | None:
        """The newest report of progress; None if there was none."""
        ...

    def report(self, report: Report) -> None:
        """Take a report of progress; may be called from any thread."""
        ...

    def usage(self) -> tuple[Usage, ...]:
        """Return what the attempt has used so far."""
        ...

    def beginning(self) -> None:
        """Note that the handler begins a transaction, which may lock the row of its job."""
        ...

    def undone(self) -> None:
        """Note that the handler's transaction was rolled back."""
        ...

    def completing(self, end: End) -> None:
        """Record that the handler is about to commit the end of its job.

        From now on, only the database knows whether the job has ended.
        """
        ...

    def completed(self, spent: frozenset[str]) -> None:
        """Record that the handler committed the end of its job, and which orgs thus used up their budget."""
        ...
