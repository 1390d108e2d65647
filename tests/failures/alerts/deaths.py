"""Jobs that die at a chosen time, and what a sink was given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onward import Client, Failed
from onward.results import Alert, GroupedAlert, Job
from tests.work.leases import dying_processes as dying

__all__ = ["BUSY", "HOLD", "SINK", "T", "Told", "die", "messages", "only", "ready"]

T = datetime(2100, 1, 1, tzinfo=UTC)
"""After the time at which the tables were made: earlier deaths are not told."""

HOLD = timedelta(seconds=40)
SINK = "told"
BUSY = Failed({"error_class": "Busy", "message": "the line is busy"}, retryable=False)


def ready(client: Client) -> Client:
    """Give the worker of these tests its lease."""
    client.at(T).worker.register("w", lease=timedelta(days=3650))
    return client


def die(client: Client, *, now: datetime = T, outcome: Failed = dying.DEAD, **options: Any) -> Job:
    return dying.die(client, outcome, now, **options)


def only(client: Client, **where: Any) -> GroupedAlert:
    [alert] = client.alerts.list(**where)
    return alert


def messages(client: Client, now: datetime = T, sink: str = SINK) -> list[Alert]:
    """Give what a sink would be told now, as if it took all."""
    client.at(now).worker.alerts.prepare([sink])
    taken: list[Alert] = []
    while (send := client.at(now).worker.alerts.take(sink, hold=HOLD)) is not None:
        taken.append(send.alert)
        assert client.at(now).worker.alerts.record_send(send)
    return taken


class Told:
    """A sink that remembers, and fails as long as it is told to."""

    def __init__(self, name: str = SINK) -> None:
        self.name = name
        self.alerts: list[Alert] = []
        self.tries = 0
        self.failure: Exception | None = None

    def send(self, alert: Alert) -> None:
        self.tries += 1
        if self.failure is not None:
            raise self.failure
        self.alerts.append(alert)
