"""A job type as clients know it: it completes jobs of its name that were made without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from onward.core.jobs.job import NewJob
from onward.core.jobs.payload import require_arguments
from onward.core.policy.policies import Policies
from onward.handlers.enqueue_options import Request
from onward.handlers.signature import Signature


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The signature of a job type, and the options of its definition; the registry keeps it by name."""

    signature: Signature
    request: Request
    policies: Policies

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise InvalidArguments for a payload that the handler's signature does not accept."""
        self.signature.arguments(payload)

    def effective(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with which a payload takes effect, as JSON values, defaults filled in."""
        return self.signature.effective(payload)

    def fill(self, new: NewJob) -> NewJob:
        """Return a checked job of this type, its unset fields filled in as an enqueue of the type would."""
        self._check(new)
        return self.request.fill(new, self.policies)

    def fill_run(self, new: NewJob) -> tuple[NewJob, timedelta | None]:
        """Return the same for the runs of a schedule, which have own keys and deadlines.

        The second value is the time from a run to its deadline.
        """
        self._check(new)
        return self.request.for_runs().fill(new, self.policies), self.request.allowed

    def _check(self, new: NewJob) -> None:
        require_arguments(new.payload)
        self.check(new.payload)
