"""The doctor: explains why a queue is stuck, and why one job has not run."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.page import Page
from onward.core.upkeep.diagnosis import Finding, ranked
from onward.core.upkeep.explanation import explain
from onward.core.upkeep.facts import DatabaseSeen
from onward.core.upkeep.findings import diagnose
from onward.core.upkeep.health import dry_run, examine, missing_file, trouble
from onward.errors import OnwardError
from onward.operations.statement import Operation
from onward.operations.upkeep import doctor
from onward.operations.work import polls
from onward.stores.local_state import condition_of

T = TypeVar("T")


class AsyncDoctor:
    """Examines and reports; it changes nothing, and creates no database that does not exist."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._store = binding.store
        self._policies = binding.policies

    async def check(self, *, deep: bool = False) -> Page[Finding]:
        """Return why jobs do not run, the worst finding first, and what is well.

        A database that fails is a finding too. `deep` also looks for damage, which reads all of a SQLite
        file. Raises NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("doctor.check")
        findings = [dry_run()] if self._policies.settings.dry_run else []
        condition = condition_of(self._store)
        if not condition.exists:
            return Page(ranked([*findings, missing_file(str(condition.path))]))
        try:
            (await self._store.plan()).check()
            findings += await self._look_around(deep=deep)
        except OnwardError as error:
            findings.append(trouble(error))
        return Page(ranked(findings))

    async def explain(self, job_id: AnyJobId) -> Page[Finding]:
        """Return why a job has not run, or has not had its effect.

        Raises JobNotFound, and InvalidJob for a text that is no id.
        """
        wanted, at, confined = normalise_id(job_id), self._binding.now(), self._binding.org_id is not None
        facts = await self._run(
            lambda: doctor.gather_job(wanted, self._policies, at, confined=confined), write=False
        )
        return Page(explain(facts))

    async def _look_around(self, *, deep: bool) -> list[Finding]:
        """Examine the database in parts: a part that fails does not hide the findings of the others."""
        findings: list[Finding] = []
        # Not the bound time: the real clock is compared with that of the database.
        here = datetime.now(UTC)
        facts = await self._part(findings, lambda: doctor.gather(self._policies, here))
        seen = await self._examined(findings)
        if deep:
            damage = await self._part(findings, doctor.check_integrity)
            seen = seen and msgspec.structs.replace(seen, damage=damage or ())
        if facts is not None:
            listeners = None if seen is None or seen.pooler else seen.listeners
            findings += diagnose(msgspec.structs.replace(facts, listeners=listeners))
        return findings + ([] if seen is None else examine(seen))

    async def _examined(self, findings: list[Finding]) -> DatabaseSeen | None:
        store = self._store
        # Measured after the connection is open and the schema known; otherwise that work would count.
        began = time.perf_counter()
        ready = await self._part(findings, polls.ready_queues)
        took = timedelta(seconds=time.perf_counter() - began)
        if ready is None:
            return None
        table = f"{store.prefix}live"
        seen = await self._part(
            findings, lambda: doctor.inspect_database(ready.now, kind=store.database, table=table)
        )
        condition = condition_of(store)
        return seen and msgspec.structs.replace(
            seen, round_trip=took, pooler=condition.pooler, log_bytes=condition.log_bytes
        )

    async def _part(self, findings: list[Finding], make: Callable[[], Operation[T]]) -> T | None:
        try:
            return await self._run(make, write=False)
        except OnwardError as error:
            finding = trouble(error)
            if finding.code not in {one.code for one in findings}:
                findings.append(finding)
            return None
