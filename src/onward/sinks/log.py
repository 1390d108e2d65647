"""A sink that writes each alert as one line of the log, with the hint and the next command."""

from __future__ import annotations

import logging

from onward.core.failures.alert import Alert, text_of
from onward.logs import get_logger

log = get_logger("onward.alerts")
# Without a handler, logging would write to the standard error of a script that has set up no logging.
log.addHandler(logging.NullHandler())


class LogSink:
    """Writes to the logger `onward.alerts`: problems as errors, all else as warnings."""

    def __init__(self, *, name: str = "log") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"LogSink(name={self.name!r})"

    def send(self, alert: Alert) -> None:
        """Write the alert as one line."""
        level = logging.ERROR if alert.severity == "problem" else logging.WARNING
        log.log(level, "%s", " · ".join(text_of(alert).splitlines()))
