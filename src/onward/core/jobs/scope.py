"""A scope: the org and the project to which a call is confined."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """An org and a project; None confines to none."""

    org_id: str | None = None
    project_id: str | None = None

    def __str__(self) -> str:
        """Return the scope as messages speak of it."""
        org = None if self.org_id is None else f"org {self.org_id!r}"
        project = None if self.project_id is None else f"project {self.project_id!r}"
        return " and ".join(filter(None, (org, project))) or "no org"


ALL = Scope()
