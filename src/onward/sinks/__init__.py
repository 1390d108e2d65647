"""The sinks of alerts: log, webhook, Slack, e-mail, a function.

A sink that fails affects no job and no other sink.
"""

from __future__ import annotations

from collections.abc import Callable

from onward.core.failures.alert import Alert, Sink
from onward.errors import InvalidSetting
from onward.sinks.function import CallableSink
from onward.sinks.log import LogSink

__all__ = ["add_sink", "sinks_of"]

_ADVICE = "give a list of sinks or functions, such as [LogSink(), notify], or [] for no alerts"


def sinks_of(alerts: object) -> list[Sink]:
    """Return the sinks for the setting `alerts`; the log if it is None."""
    if alerts is None:
        return [LogSink()]
    if not isinstance(alerts, list | tuple):
        raise InvalidSetting(f"alerts is {alerts!r:.80}; {_ADVICE}")
    sinks: list[Sink] = []
    for one in alerts:
        add_sink(sinks, one)
    return sinks


def add_sink(sinks: list[Sink], one: Sink | Callable[[Alert], object]) -> None:
    """Add a sink, or a function as one; its waiting messages are stored by its name, which must be unique."""
    if not isinstance(one, type) and callable(getattr(one, "send", None)):
        sink: Sink = one  # type: ignore[assignment]
    elif callable(one) and not isinstance(one, type):
        sink = CallableSink(one)
    else:
        raise InvalidSetting(f"{one!r:.80} is no sink; {_ADVICE}")
    name = getattr(sink, "name", None)
    if not isinstance(name, str) or not name:
        raise InvalidSetting(f"{one!r:.80} has no name; a sink needs one, by which its messages wait for it")
    if any(known.name == name for known in sinks):
        raise InvalidSetting(f"two sinks are named {name!r}; give one of them another name=")
    sinks.append(sink)
