"""Run operations on any connection, Onward's or the caller's; only this package and stores import drivers."""

from onward.connections.recognise import adapt, adapt_async, begin, begin_async
from onward.connections.run import AsyncConnection, Connection, run, run_async
from onward.connections.schema_check import require_tables

__all__ = [
    "AsyncConnection",
    "Connection",
    "adapt",
    "adapt_async",
    "begin",
    "begin_async",
    "require_tables",
    "run",
    "run_async",
]
