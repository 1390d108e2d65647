"""A look at the files of artifacts, from outside."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LARGE", "files"]

LARGE = b"0123456789abcdef" * 2000
"""Content that is too large for the database."""


def files(place: Path) -> list[Path]:
    """Give all files that hold content, or a part of it."""
    return sorted(path for path in place.rglob("*") if path.is_file() and path.name != ".lock")
