"""What is wrong with a queue, said so that a person can mend it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, Literal

import msgspec

from onward.core.inputs.plain_text import CONTROLS

Severity = Literal["ok", "warning", "problem"]
"""All is well; something will go wrong, or goes slowly; jobs do not run."""

_RANKS: Mapping[Severity, int] = {"problem": 0, "warning": 1, "ok": 2}
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAYS = timedelta(days=2)
# What is not plain between double quotes.
_SPECIAL = re.compile(r"[\"$`\\!\x00-\x1f]")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to "why is my queue stuck?": what was seen, what shows it, and the command that mends it."""

    code: str
    severity: Severity
    title: str
    evidence: Mapping[str, Any] = {}
    remedy: str | None = None


def found(code: str, severity: Severity, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Make a finding; instants in its evidence become text, as in all JSON of ours."""
    shown = {name: stamp(value) if isinstance(value, datetime) else value for name, value in evidence.items()}
    return Finding(code=code, severity=severity, title=title, evidence=shown, remedy=remedy)


def problem(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Say why jobs do not run."""
    return found(code, "problem", title, remedy, **evidence)


def warning(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Say what will go wrong, or goes slowly."""
    return found(code, "warning", title, remedy, **evidence)


def fine(code: str, title: str, remedy: str | None = None, **evidence: Any) -> Finding:
    """Say what is as it should be."""
    return found(code, "ok", title, remedy, **evidence)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Put what keeps jobs from running first."""
    return sorted(findings, key=lambda finding: _RANKS[finding.severity])


def stamp(at: datetime) -> str:
    """Write an instant as text that a program can read."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lasting(length: timedelta) -> str:
    """Write a length of time as people say it."""
    length = max(length, timedelta())
    if length < 2 * _MINUTE:
        return f"{round(length.total_seconds())} s"
    if length < 2 * _HOUR:
        return f"{length // _MINUTE} min"
    return f"{length // _HOUR} h" if length < _DAYS else f"{length.days} days"


def quoted(name: str) -> str:
    """Write a name as a word of a shell's command; it stays the same name where controls are not shown."""
    if not CONTROLS.search(name):
        return quote(name)
    safe = name.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + CONTROLS.sub(_escaped, safe) + "'"


def positional(name: str) -> str:
    """Write a name as the last word of a command, where one that begins with a dash is no option."""
    return f"-- {quoted(name)}" if name.startswith("-") else quoted(name)


def psql(statement: str) -> str:
    """Write a statement as a command in which a shell finds nothing to run."""
    plain = not _SPECIAL.search(statement)
    return f'psql -c "{statement}"' if plain else f"psql -c {quoted(statement)}"


def _escaped(control: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in control[0].encode(errors="replace"))
