"""Checks that the application's settings require before and after a handler.

Built-in job types are not checked before they run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from onward.clients.client import AsyncClient
from onward.core.failures.classify import describe
from onward.core.jobs.job import Job
from onward.core.policy.built_in import BUILT_IN
from onward.core.policy.contract import artifact_missing, check_stored, owes_artifact
from onward.core.policy.policies import Policies
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Failed, Outcome, Succeeded
from onward.errors import ContractBroken
from onward.handlers.clients import confined
from onward.worker.attempts.attempt import Running, isolated
from onward.worker.attempts.thread_slots import Threads

Authorize = Callable[[Job], bool | Awaitable[bool | None] | None]
"""Decides whether a job may run: False or a PermissionError fails the job for good."""


class Guard:
    """Refuses jobs that may not run, and fails jobs that ran without what their category requires."""

    def __init__(
        self, policies: Policies, authorize: Authorize | None, threads: Threads, client: AsyncClient
    ) -> None:
        self._policies = policies
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._authorize = authorize
        self._threads = threads
        self._orgs = policies.settings.tenancy == "required"
        artifacts = any(category.needs_artifact for category in policies.registry.categories.values())
        self.idle = not (self._orgs or artifacts or authorize)

    async def refusal(self, job: Job) -> Outcome | None:
        """Return the outcome of a job that may not run, else None; raise the errors of the app's check."""
        if job.job_type in BUILT_IN:
            return None
        broken = self._broken(job)
        if broken is not None or self._authorize is None:
            return broken
        try:
            allowed = await self._check(self._authorize, job)
        except PermissionError as error:
            described = describe(error, self._policies.settings.redact.hider(job.payload))
            rule = "not_authorised"
            return Failed(replace(described, rule=rule, reason=rule), retryable=False)
        if allowed is False:
            return _refused("NotAuthorised", "the application's check refused the job", "not_authorised")
        return None

    def _broken(self, job: Job) -> Outcome | None:
        """Return the outcome of a job whose stored row lacks what the settings require."""
        if self._orgs and job.org_id is None:
            return _refused("OrgMissing", "the job has no org, and tenancy='required'", "org_missing")
        if self._policies.settings.strict:
            try:
                check_stored(job, self._policies)
            except ContractBroken as error:
                return _refused("ContractBroken", str(error), "contract_broken")
        return None

    async def judged(self, run: Running, outcome: Outcome) -> Outcome:
        """Return the outcome of a job that ran; a success without the required artifact is a failure."""
        job = run.job
        if not self._is_doubtful(run.job, outcome):
            return outcome
        if (await confined(self._client, job).artifacts.list(job_id=job.id, limit=1)).items:
            return outcome
        return _refused("ArtifactMissing", artifact_missing(job), "artifact_missing")

    def judged_from_thread(self, run: Running, outcome: Outcome) -> Outcome:
        """Return the same, called in the thread of a handler: the event loop asks the database."""
        if not self._is_doubtful(run.job, outcome):
            return outcome
        return asyncio.run_coroutine_threadsafe(self.judged(run, outcome), self._loop).result()

    def _is_doubtful(self, job: Job, outcome: Outcome) -> bool:
        return isinstance(outcome, Succeeded) and owes_artifact(job, self._policies)

    async def _check(self, authorize: Authorize, job: Job) -> bool | None:
        if inspect.iscoroutinefunction(authorize):
            allowed: bool | None = await isolated(authorize(job))
        else:
            # In a thread, because a plain function may block on a database.
            allowed = await self._threads.call(partial(authorize, job), {})
        return allowed


def _refused(kind: str, message: str, reason: str) -> Failed:
    return Failed(ErrorRecord(kind, message, reason=reason, rule=reason), retryable=False)
