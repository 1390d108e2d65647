"""Alerts: what operators were told or will be told, and which alerts are muted.

Workers gather alerts and send their messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from onward.clients.binding import AsyncBinding
from onward.core.failures.alert import GroupedAlert
from onward.core.inputs.duration import Duration
from onward.operations.failures import alerts

_OVERLAP = timedelta(seconds=10)
_DEEP_OVERLAP = timedelta(minutes=15)
_PAGE, _MOST_PAGES = 5000, 20


class AsyncAlerts:
    """List and mute alerts; the other methods are for workers."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    async def list(self, *, kind: str | None = None, limit: int = 50) -> Sequence[GroupedAlert]:
        """Read alerts, the latest occurrence first, with the messages that wait and why they wait."""
        return await self._run(lambda: alerts.list_alerts(kind=kind, limit=limit), write=False)

    async def mute(self, fingerprint: str, *, reason: str, for_: Duration | None = None) -> bool:
        """Keep counting an alert without sending messages, for `for_` or until it is unmuted.

        Return False if there is no such alert.
        """
        return await self._run(lambda: alerts.mute(fingerprint, reason=reason, for_=for_))

    async def unmute(self, fingerprint: str, *, reason: str | None = None) -> bool:
        """Send messages for an alert again, from its next occurrence; False if it was not muted."""
        return await self._run(lambda: alerts.unmute(fingerprint, reason=reason))
