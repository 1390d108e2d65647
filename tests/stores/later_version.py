"""Migrations of a version that is still to come, for tests of several steps."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp

from onward.stores.migrations import BUNDLED, read_migrations

__all__ = ["NEWEST", "NEXT", "VERSIONS", "later_version"]

VERSIONS = [(step.version, step.name) for step in read_migrations("sqlite", "onward_")]
NEWEST = VERSIONS[-1][0]
NEXT = NEWEST + 1


def later_version(folder: Path, *steps: str) -> Path:
    """Write the bundled migrations to a new folder, and after them steps named `step_` and their number."""
    made = Path(mkdtemp(dir=folder, prefix="later-"))
    shutil.copytree(str(BUNDLED), made, dirs_exist_ok=True)
    for database in ("sqlite", "postgres"):
        for number, sql in enumerate(steps, NEXT):
            (made / database / f"{number:04}_step_{number}.sql").write_text(sql)
    return made
