"""Format text for a terminal; no value from outside can break a line or control the terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import click

from onward.core.inputs.plain_text import CONTROLS
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.secrets.redaction import Redaction

_PASSWORD = re.compile(r"//([^/@:]*):.*@", re.DOTALL)


def shown_json(value: object, redaction: Redaction | None = None) -> str:
    """Return a value as JSON with its control characters escaped, without secrets if a redaction is given."""
    from onward.core.plain import plain

    text = json.dumps(plain(value, redaction), ensure_ascii=False)
    return CONTROLS.sub(lambda control: "".join(f"\\u{ord(letter):04x}" for letter in control[0]), text)


def clean_lines(text: str, indent: str) -> str:
    """Return a text of several lines without control characters; each line keeps its own indentation."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"{indent}{line[: len(line) - len(line.lstrip(' '))]}{clean(line)}" for line in lines)


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


def masked(url: str) -> str:
    """Return a URL without its password and without its options, which may contain one."""
    return _PASSWORD.sub(r"//\1@", url).partition("?")[0]


def place_options(app: str | None, url: str | None) -> str:
    """Return the options that name an app and a database again, for a command that is advised."""
    from onward.core.upkeep.diagnosis import quoted

    where = "" if url is None else f" --url {quoted(masked(url))}"
    return f"{where} --app {quoted(app)}" if app else where


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
