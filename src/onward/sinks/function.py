"""A sink that calls a function of the application."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from onward.core.failures.alert import Alert
from onward.core.inputs.checks import check_takes_one
from onward.errors import InvalidSetting


class CallableSink:
    """Calls a function with the alert, in a thread; an async function gets its own event loop."""

    def __init__(self, function: Callable[[Alert], object], *, name: str | None = None) -> None:
        if not callable(function):
            raise InvalidSetting(f"{function!r:.80} can't be called; give a function that takes an alert")
        own = getattr(function, "__qualname__", None) or type(function).__qualname__
        module = getattr(function, "__module__", None) or "builtins"
        self.name = name or f"function:{module}.{own}"
        check_takes_one(f"the sink {self.name}", function, "the alert")
        self._function = function

    def __repr__(self) -> str:
        return f"CallableSink(name={self.name!r})"

    def send(self, alert: Alert) -> None:
        """Call the function; if it raises, the alert is sent again later."""
        answer = self._function(alert)
        if inspect.iscoroutine(answer):
            asyncio.run(answer)
