"""The finding of a diagnosis, and how its texts and commands are written.

A command can be pasted into a shell: nothing in a name or a statement runs by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, Literal

import msgspec

from onward.core.inputs.plain_text import CONTROLS
from onward.core.plain import plain_time

Severity = Literal["ok", "warning", "problem"]
"""`ok`: as it should be; `warning`: it will fail, or is slow; `problem`: jobs do not run."""

_RANKS: Mapping[Severity, int] = {"problem": 0, "warning": 1, "ok": 2}
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAYS = timedelta(days=2)
# Characters that a shell interprets between double quotes, and controls.
_SPECIAL = re.compile(r"[\"$`\\!\x00-\x1f]")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to "why is my queue stuck?": what is wrong, the evidence, and the command that mends it."""

    code: str
    severity: Severity
    title: str
    evidence: Mapping[str, Any] = {}
    remedy: str | None = None


def found(code: str, severity: Severity, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Return a finding; instants in its evidence become text, as in all of Onward's JSON."""
    shown = {
        name: plain_time(value) if isinstance(value, datetime) else value for name, value in evidence.items()
    }
    return Finding(code=code, severity=severity, title=title, evidence=shown, remedy=remedy)


def problem(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Return a finding that jobs do not run."""
    return found(code, "problem", title, remedy, **evidence)


def warning(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Return a finding that something will fail, or is slow."""
    return found(code, "warning", title, remedy, **evidence)


def fine(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Return a finding that something is as it should be."""
    return found(code, "ok", title, remedy, **evidence)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings sorted by severity, problems first."""
    return sorted(findings, key=lambda finding: _RANKS[finding.severity])


def stamp(at: datetime) -> str:
    """Return an instant as people read it in the title of a finding, to the millisecond."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lasting(length: timedelta) -> str:
    """Return a length of time in the largest fitting unit, such as `5 min`."""
    length = max(length, timedelta())
    if length < 2 * _MINUTE:
        return f"{round(length.total_seconds())} s"
    if length < 2 * _HOUR:
        return f"{length // _MINUTE} min"
    return f"{length // _HOUR} h" if length < _DAYS else f"{length.days} days"


def quoted(name: str) -> str:
    """Return a name as one word of a shell command; control characters are escaped, so the name survives."""
    if not CONTROLS.search(name):
        return quote(name)
    safe = name.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + CONTROLS.sub(_escaped, safe) + "'"


def positional(name: str) -> str:
    """Return a name as the last word of a command; after `--` if it begins with a dash, as an option does."""
    return f"-- {quoted(name)}" if name.startswith("-") else quoted(name)


def psql(statement: str) -> str:
    """Return a `psql` command for a statement, quoted so that the shell runs nothing within it."""
    plain = not _SPECIAL.search(statement)
    return f'psql -c "{statement}"' if plain else f"psql -c {quoted(statement)}"


def _escaped(control: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in control[0].encode(errors="replace"))
