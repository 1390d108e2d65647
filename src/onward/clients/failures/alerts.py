"""Alerts: which messages operators got or will get, and which alerts are muted."""

from __future__ import annotations

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Changed
from onward.core.failures.alert import GroupedAlert
from onward.core.inputs.duration import Duration
from onward.core.page import Cursor, Page, PageSize
from onward.operations.failures import alerts


class AsyncAlerts:
    """List alerts, which workers gather and send, and mute them."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run

    async def list(
        self, *, kind: str | None = None, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[GroupedAlert]:
        """Read a page of alerts, the latest occurrence first, with the messages that wait and why."""
        return await self._run(lambda: alerts.list_alerts(kind=kind, limit=limit, cursor=cursor), write=False)

    async def mute(self, fingerprint: str, *, reason: str, for_: Duration | None = None) -> Changed:
        """Keep counting an alert without sending messages, for `for_` or until it is unmuted.

        Nothing changes if there is no such alert.
        """
        return await self._run(lambda: alerts.mute(fingerprint, reason=reason, for_=for_))

    async def unmute(self, fingerprint: str, *, reason: str | None = None) -> Changed:
        """Send messages for a muted alert again, from its next occurrence."""
        return await self._run(lambda: alerts.unmute(fingerprint, reason=reason))
