"""Format text for a terminal; no value from outside can break a line or control the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from onward.core.inputs.plain_text import CONTROLS
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.secrets.redaction import Redaction

_PASSWORD = re.compile(r"//([^/@:]*):.*@", re.DOTALL)
_SECONDS = 60
_MINUTES = 60 * 60
_HOURS = 48 * 60 * 60


def shown_json(value: object, redaction: Redaction | None = None) -> str:
    """Return a value as JSON with its control characters escaped, without secrets if a redaction is given."""
    from onward.core.plain import plain

    text = json.dumps(plain(value, redaction), ensure_ascii=False)
    return CONTROLS.sub(lambda control: "".join(f"\\u{ord(letter):04x}" for letter in control[0]), text)


def say(text: str, *, timed: bool = True) -> None:
    """Write a line to the standard error, by default with the time of day."""
    now = f"{datetime.now().astimezone():%H:%M:%S} " if timed else ""
    # The reader of the standard error may be gone; that must not stop the work.
    with suppress(OSError):
        click.echo(f"{now}{text}", err=True)


def short(job_id: str, *, stream: object = None) -> str:
    """Shorten an id on a terminal; elsewhere a program may read it, so it stays complete."""
    is_terminal = getattr(stream or sys.stderr, "isatty", bool)()
    return f"{job_id[:6]}…{job_id[-3:]}" if is_terminal else job_id


def lasting(length: timedelta) -> str:
    """Return a length of time in a short form: 184 ms, 5s, 7m 30s, 7h 41m, 3d."""
    seconds = length.total_seconds()
    rounded = round(seconds)
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if rounded < _SECONDS:
        return f"{round(seconds, 1):g}s"
    if rounded < _MINUTES:
        return f"{rounded // 60}m" + (f" {rounded % 60}s" if rounded % 60 else "")
    if rounded < _HOURS:
        return f"{rounded // 3600}h" + (f" {rounded % 3600 // 60}m" if rounded % 3600 // 60 else "")
    return f"{rounded // 86400}d"


def masked(url: str) -> str:
    """Return a URL without its password and without its options, which may contain one."""
    return _PASSWORD.sub(r"//\1@", url).partition("?")[0]


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Return a heading and rows in columns, the column `right` aligned right; no lines without rows."""
    if not rows:
        return []
    cells = [list(heading), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heading))]
    return [
        "  ".join(
            cell.rjust(width) if at == right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
