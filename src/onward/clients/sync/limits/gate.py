# Generated from src/onward/clients/limits/gate.py by tools/make_sync.py. Edit that file instead.
"""The gate, by which an operator stops the claims of all workers, and the switches of orgs and job types."""

from __future__ import annotations

from onward.clients.sync.binding import Binding
from onward.core.bulk import Changed
from onward.core.jobs.job_types import KnownJobType
from onward.core.limits.pause import Controls
from onward.core.page import Page
from onward.operations.jobs import job_types
from onward.operations.limits import pauses


class Gate:
    """While the gate is closed no worker claims a job; running jobs continue."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def close(self, *, reason: str) -> Changed:
        """Stop all claims; nothing changes if the gate is closed for that reason already.

        Raises InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.close_gate(reason=reason))

    def open(self, *, reason: str | None = None) -> Changed:
        """Let workers claim again; nothing changes if the gate is open.

        Raises InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.open_gate(reason=reason))

    def status(self) -> Controls:
        """Read the gate, the pauses, and the orgs that have spent their budget."""
        return self._run(pauses.controls, write=False)


class Orgs:
    """The orgs whose jobs an operator holds back."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def pause(self, org_id: str, *, reason: str) -> Changed:
        """Stop claims of an org's jobs; running jobs continue.

        Nothing changes if it is paused for that reason already; another reason replaces the first one.
        Raises InvalidJob for an invalid org, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.pause("org", org_id, reason=reason))

    def resume(self, org_id: str, *, reason: str | None = None) -> Changed:
        """End the pause of an org; nothing changes if there is none.

        Raises InvalidJob for an invalid org, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.resume("org", org_id, reason=reason))


class JobTypes:
    """The job types: what each is for, and whether an operator pauses or skips its jobs."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run

    def list(self) -> Page[KnownJobType]:
        """Return the job types that this application declares or that live workers know, by name.

        Raises NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("job_types.list")
        policies = self._binding.policies
        return self._run(lambda: job_types.list_job_types(policies), write=False)

    def pause(self, job_type: str, *, reason: str) -> Changed:
        """Stop claims of the jobs of a type; running jobs continue.

        Nothing changes if it is paused for that reason already; another reason replaces the first one.
        Raises InvalidJob for an invalid job type, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.pause("job_type", job_type, reason=reason))

    def resume(self, job_type: str, *, reason: str | None = None) -> Changed:
        """End the pause of a job type; nothing changes if there is none.

        Raises InvalidJob for an invalid job type, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.resume("job_type", job_type, reason=reason))

    def skip(self, job_type: str, *, reason: str) -> Changed:
        """Let the jobs of a type succeed without a run, with outcome skipped; running jobs continue.

        Nothing changes if they are skipped for that reason already; another reason replaces the first one.
        Raises InvalidJob for an invalid job type, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.skip(job_type, reason=reason))

    def unskip(self, job_type: str, *, reason: str | None = None) -> Changed:
        """Let the jobs of a type run again; nothing changes if they are not skipped.

        Raises InvalidJob for an invalid job type, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.unskip(job_type, reason=reason))
