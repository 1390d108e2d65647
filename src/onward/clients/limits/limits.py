"""Limits: how many jobs that share something run at once or start in a period.

The application declares a limit; an operator can override it.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.clients.binding import AsyncBinding
from onward.core.inputs.rate import Rate
from onward.core.limits.limit_use import LimitSeen
from onward.operations.limits import limits


class AsyncLimits:
    """The limits, one for each name that workers have declared."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    async def list(self, *, keys: int = 5) -> Sequence[LimitSeen]:
        """Read the limits by name, each with at most `keys` of its busiest keys."""
        return await self._run(lambda: limits.list_limits(keys=keys), write=False)

    async def get(self, name: str, *, keys: int = 20) -> LimitSeen:
        """Read a limit with at most `keys` of its busiest keys.

        Raise InvalidSetting if no worker has declared a limit of this name.
        """
        return await self._run(lambda: limits.get_limit(name, keys=keys), write=False)

    async def set(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: Rate | None = None,
        burst: int | None = None,
        reason: str,
    ) -> LimitSeen:
        """Override what the application declares, until `reset`; running jobs go on.

        A part that is left out stays as declared.
        """
        return await self._run(
            lambda: limits.override(name, concurrency=concurrency, rate=rate, burst=burst, reason=reason),
            atomic=True,
        )

    async def reset(self, name: str, *, reason: str) -> bool:
        """Remove the override, so that the declared limit holds again; False if there was none."""
        return await self._run(lambda: limits.reset(name, reason=reason), atomic=True)
