"""How a parameter or field is written outside of Python, where its Python type has no form of its own.

A caller in Python may give a `timedelta` or a `UUID`; over HTTP the same argument is a text or a number.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta


class Form(NamedTuple):
    """The type as which an annotated parameter is read from JSON, a query or a command line."""

    wire_type: Any


Instant = Annotated[datetime, Meta(tz=True)]
"""A point in time: a `datetime` with a time zone."""
