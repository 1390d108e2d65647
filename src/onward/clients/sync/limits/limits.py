# Generated from src/onward/clients/limits/limits.py by tools/make_sync.py. Edit that file instead.
"""Limits: how many jobs that share something run at once or start in a period.

The application declares a limit; an operator can override it.
"""

from __future__ import annotations

from onward.clients.sync.binding import Binding
from onward.core.bulk import Changed
from onward.core.inputs.rate import Rate
from onward.core.limits.bounds import Burst, Concurrency
from onward.core.limits.limit_use import KeyCount, LimitSeen
from onward.core.page import Page
from onward.operations.limits import limits


class Limits:
    """The limits, one for each name that workers have declared."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def list(self, *, keys: KeyCount = 5) -> Page[LimitSeen]:
        """Read the limits by name, each with at most `keys` of its busiest keys.

        Raises InvalidSetting for an invalid `keys`.
        """
        return self._run(lambda: limits.list_limits(keys=keys), write=False)

    def get(self, name: str, *, keys: KeyCount = 20) -> LimitSeen:
        """Read a limit with at most `keys` of its busiest keys.

        Raises InvalidSetting if no worker has declared a limit of this name.
        """
        return self._run(lambda: limits.get_limit(name, keys=keys), write=False)

    def set(
        self,
        name: str,
        *,
        concurrency: Concurrency | None = None,
        rate: Rate | None = None,
        burst: Burst | None = None,
        reason: str,
    ) -> LimitSeen:
        """Override what the application declares, until `reset`; running jobs continue.

        A part that is left out stays as declared. Raises InvalidSetting for an unknown limit or an invalid
        part.
        """
        return self._run(
            lambda: limits.override(name, concurrency=concurrency, rate=rate, burst=burst, reason=reason),
            atomic=True,
        )

    def reset(self, name: str, *, reason: str) -> Changed:
        """Remove the override, so that the declared limit holds again; nothing changes if there is none.

        Raises InvalidSetting for an unknown limit.
        """
        return self._run(lambda: limits.reset(name, reason=reason), atomic=True)
