"""Connections to which something happens right before or right after their commit."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NoReturn

import psycopg

__all__ = ["break_off", "cut", "die"]


def nothing() -> None:
    """Happen to nobody."""


def die() -> NoReturn:
    """End this process at once, as the kernel would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def break_off() -> NoReturn:
    """Fail as a driver does whose connection is gone."""
    raise ConnectionError("the connection broke")


class CutSqlite(sqlite3.Connection):
    """What happens to a SQLite connection."""

    before: Callable[[], None] = staticmethod(nothing)
    after: Callable[[], None] = staticmethod(nothing)

    def commit(self) -> None:
        self.before()
        super().commit()
        self.after()


class CutPostgres(psycopg.Connection[Any]):
    """What happens to a PostgreSQL connection."""

    before: Callable[[], None] = staticmethod(nothing)
    after: Callable[[], None] = staticmethod(nothing)

    @contextmanager
    def transaction(self, *args: Any, **options: Any) -> Iterator[psycopg.Transaction]:
        with super().transaction(*args, **options) as transaction:
            yield transaction
            self.before()
        self.after()


@contextmanager
def cut(
    url: str, *, before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
) -> Iterator[Any]:
    """Open a connection to either database."""
    connection: CutSqlite | CutPostgres
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), factory=CutSqlite)
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    else:
        connection = CutPostgres.connect(url)
    connection.before, connection.after = before, after
    with closing(connection):
        yield connection
