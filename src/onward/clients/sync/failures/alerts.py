# Generated from src/onward/clients/failures/alerts.py by tools/make_sync.py. Edit that file instead.
"""Alerts: what operators were told or will be told, and which alerts are muted.

Workers gather alerts and send their messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from onward.clients.sync.binding import Binding
from onward.core.failures.alert import GroupedAlert
from onward.core.inputs.duration import Duration
from onward.operations.failures import alerts

_OVERLAP = timedelta(seconds=10)
_DEEP_OVERLAP = timedelta(minutes=15)
_PAGE, _MOST_PAGES = 5000, 20


class Alerts:
    """List and mute alerts; the other methods are for workers."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def list(self, *, kind: str | None = None, limit: int = 50) -> Sequence[GroupedAlert]:
        """Read alerts, the latest occurrence first, with the messages that wait and why they wait."""
        return self._run(lambda: alerts.list_alerts(kind=kind, limit=limit), write=False)

    def mute(self, fingerprint: str, *, reason: str, for_: Duration | None = None) -> bool:
        """Keep counting an alert without sending messages, for `for_` or until it is unmuted.

        Return False if there is no such alert.
        """
        return self._run(lambda: alerts.mute(fingerprint, reason=reason, for_=for_))

    def unmute(self, fingerprint: str, *, reason: str | None = None) -> bool:
        """Send messages for an alert again, from its next occurrence; False if it was not muted."""
        return self._run(lambda: alerts.unmute(fingerprint, reason=reason))
