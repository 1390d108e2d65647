# Generated from src/onward/clients/failures/alerts.py by tools/make_sync.py. Edit that file instead.
"""Alerts: what somebody was told or will be, muted where nobody wants to hear it; workers send them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from onward.clients.sync.binding import Binding
from onward.core.inputs.duration import Duration
from onward.core.upkeep.diagnosis import Finding
from onward.operations.failures import alerts
from onward.operations.failures.alerts import GroupedAlert, Send

_OVERLAP = timedelta(seconds=10)
_DEEP_OVERLAP = timedelta(minutes=15)
_PAGE, _MOST_PAGES = 5000, 20


class Alerts:
    """Look at alerts and mute them; the rest is for workers."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._rules = binding.rules

    def list(self, *, kind: str | None = None, limit: int = 50) -> Sequence[GroupedAlert]:
        """Read alerts, that which happened last first, with the messages that wait and why."""
        return self._run(lambda: alerts.list_alerts(kind=kind, limit=limit), write=False)

    def mute(self, fingerprint: str, *, reason: str, for_: Duration | None = None) -> bool:
        """Count an alert, but tell nobody: for a time, or until it is unmuted; False if there is none."""
        return self._run(lambda: alerts.mute(fingerprint, reason=reason, for_=for_))

    def unmute(self, fingerprint: str, *, reason: str | None = None) -> bool:
        """Tell of an alert again, from its next time on; False if it was not muted."""
        return self._run(lambda: alerts.unmute(fingerprint, reason=reason))

    def gather(self, *, deep: bool = False) -> int:
        """Put deaths into alerts that are in none yet; gives how many, up to 500.

        A deep look also finds those that were committed up to a quarter of an hour late.
        """
        overlap = _DEEP_OVERLAP if deep else _OVERLAP
        found = self._run(lambda: alerts.find_deaths(overlap=overlap), write=False)
        if deep and len(found) < alerts.AT_ONCE:
            self._run(alerts.note_look)
        if not found:
            return 0
        return self._run(lambda: alerts.raise_deaths(found, self._rules), atomic=True)

    def observe(self, findings: Collection[Finding]) -> None:
        """Take findings for open alerts; those that are no longer found are resolved."""
        self._run(lambda: alerts.observe(findings, self._rules), atomic=True)

    def prepare(self, sinks: Collection[str]) -> frozenset[str]:
        """Write the messages that are due; names the sinks for which one waits."""
        throttle = self._rules.alert_throttle
        waiting = self._run(lambda: alerts.due(sinks, throttle=throttle), write=False)
        if "alert" in waiting:
            self._run(lambda: alerts.prepare(sinks, throttle=throttle), atomic=True)
            return frozenset(sinks)
        return waiting

    def take(self, sink: str, *, hold: timedelta) -> Send | None:
        """Take a message for a sink; nobody else is given it for as long as `hold`."""
        return self._run(lambda: alerts.take(sink, hold=hold))

    def settle(self, send: Send, error: str | None = None, *, wait: timedelta | None = None) -> bool:
        """Write what came of a message: sent, to be tried again after `wait`, or given up (None)."""
        return self._run(lambda: alerts.settle(send, error, wait=wait))

    def prune(self) -> int:
        """Remove alerts of which nothing was heard for 30 days, and the marks of old deaths."""
        gone = 0
        # In short transactions; what is left after a storm of deaths goes the next time.
        for _ in range(_MOST_PAGES):
            page = self._run(lambda: alerts.prune(overlap=_DEEP_OVERLAP, limit=_PAGE), atomic=True)
            gone += page
            if page < _PAGE:
                break
        return gone
