# Generated from src/onward/clients/jobs/enqueuing.py by tools/make_sync.py. Edit that file instead.
"""Enqueue jobs: one, many at once, or a flow."""

from __future__ import annotations

from collections.abc import Iterable

from onward.clients.enqueue_groups import Gathering
from onward.clients.sync.binding import Binding
from onward.clients.sync.jobs.storing import Storing, ids
from onward.core.flows.flow import Flow, group
from onward.core.inputs.checks import check_kind
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.scope import ALL
from onward.operations.jobs import enqueue, key_conflicts
from onward.origin import names_another_parent


class Enqueuing:
    """Fills in and stores jobs; calls that come at the same time share one statement.

    Clients that differ only in their org, project or actor share statements, too: `bound_to` keeps the
    gathering, which sends them by the binding of the client that was opened.
    """

    def __init__(self, binding: Binding, gathering: Gathering[NewJob, Enqueued] | None = None) -> None:
        self._binding = binding
        self._policies = binding.policies
        self._storing = Storing(binding)
        security = binding.store.row_security
        self._gathers = not (security or binding.is_within or binding.bound.instant is not None)
        self._gathering = gathering or Gathering(self._storing.store_gathered, self._storing.store_group)

    def bound_to(self, binding: Binding) -> Enqueuing:
        """Return the same for another binding of the store."""
        return Enqueuing(binding, self._gathering)

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store a job, or find the job that holds its key."""
        [job] = self._binding.complete([job])
        if self._gathers and not self._goes_alone(job):
            return self._gathering.ask(job)
        return self._storing.store(job, self._binding.scope_of_new)

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Store many jobs, all or none; return the answers in the order of `jobs`."""
        check_kind("jobs", jobs, Iterable, "give a list of NewJob")
        placed = self._binding.complete(jobs)
        return self._storing.store_many(placed, self._binding.scope_of_new)

    def enqueue_flow(self, flow: Flow | NewJob) -> list[Enqueued]:
        """Store the jobs of a flow, all or none; return the answers in the order of `flow.jobs`."""
        grouped = group(flow)
        jobs = self._binding.complete(grouped.jobs)
        job_ids = ids.make_many(len(jobs))
        placed = grouped.placed(jobs, job_ids)
        return self._storing.store_many(placed, self._binding.scope_of_new, job_ids)

    def _goes_alone(self, job: NewJob) -> bool:
        """Whether a job needs several statements, or the org of its parent has to be read."""
        if enqueue.tied(job) or key_conflicts.changes_holder(job, self._policies):
            return True
        return names_another_parent(job, confined=self._binding.bound.scope != ALL)
