# Generated from src/onward/clients/work/worker_alerts.py by tools/make_sync.py. Edit that file instead.
"""What workers do for alerts: gather them, and send their messages."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from onward.clients.sync.binding import Binding
from onward.core.failures.alert import Send
from onward.core.upkeep.diagnosis import Finding
from onward.operations.failures import alerts

_OVERLAP = timedelta(seconds=10)
_DEEP_OVERLAP = timedelta(minutes=15)
_PAGE, _MOST_PAGES = 5000, 20


class WorkerAlerts:
    """Puts deaths and findings into alerts, and hands out the messages that are due."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def gather(self, *, deep: bool = False) -> int:
        """Put deaths that are in no alert yet into alerts; return how many, at most 500.

        With `deep` it also finds deaths that were committed up to 15 minutes late.
        """
        overlap = _DEEP_OVERLAP if deep else _OVERLAP
        found = self._run(lambda: alerts.find_deaths(overlap=overlap), write=False)
        if deep and len(found) < alerts.AT_ONCE:
            self._run(alerts.note_look)
        if not found:
            return 0
        return self._run(lambda: alerts.raise_deaths(found, self._policies), atomic=True)

    def observe(self, findings: Collection[Finding]) -> None:
        """Keep an alert open for each finding, and resolve the alerts whose finding is gone."""
        self._run(lambda: alerts.observe(findings, self._policies), atomic=True)

    def prepare(self, sinks: Collection[str]) -> frozenset[str]:
        """Write the messages that are due; return the sinks for which a message waits."""
        throttle = self._policies.settings.alert_throttle
        waiting = self._run(lambda: alerts.due(sinks, throttle=throttle), write=False)
        if "alert" in waiting:
            self._run(lambda: alerts.prepare(sinks, throttle=throttle), atomic=True)
            return frozenset(sinks)
        return waiting

    def take(self, sink: str, *, hold: timedelta) -> Send | None:
        """Take a message for a sink; no other worker gets it for `hold`."""
        return self._run(lambda: alerts.take(sink, hold=hold))

    def record_send(self, send: Send, error: str | None = None, *, wait: timedelta | None = None) -> bool:
        """Write the result of a message: sent, or `error`, to be retried after `wait` or given up (None).

        Return False if a newer message has taken its place.
        """
        return self._run(lambda: alerts.record_send(send, error, wait=wait))

    def prune(self) -> int:
        """Remove alerts that last occurred over 30 days ago, and the marks of old deaths."""
        gone = 0
        # Short transactions. After very many deaths, the next call removes the rest.
        for _ in range(_MOST_PAGES):
            page = self._run(lambda: alerts.prune(overlap=_DEEP_OVERLAP, limit=_PAGE), atomic=True)
            gone += page
            if page < _PAGE:
                break
        return gone
