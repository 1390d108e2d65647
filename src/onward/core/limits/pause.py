"""The gate and the pauses: what holds back the claims of all workers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Scope = Literal["queue", "org", "job_type"]


Hold = Literal["queue", "org", "job_type", "budget"]
"""What can hold jobs back: a pause of one of the scopes, or the spent budget of an org."""


class Gate(msgspec.Struct, frozen=True):
    """A closed gate: no worker claims anything."""

    reason: str
    actor_type: str | None
    actor_id: str | None
    closed_at: datetime


class Pause(msgspec.Struct, frozen=True):
    """A pause: nothing of this queue, org or job type is claimed; running jobs continue.

    A pause of scope `budget` has no actor: the org of that name has spent its budget.
    """

    scope: Hold
    name: str
    reason: str
    actor_type: str | None
    actor_id: str | None
    paused_at: datetime


class TypeSkip(msgspec.Struct, frozen=True):
    """A switch: jobs of this type are claimed, and end as succeeded with outcome skipped without a run."""

    job_type: str
    reason: str
    actor_type: str | None
    actor_id: str | None
    skipped_at: datetime


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """What holds claims back: the gate, if it is closed, and the pauses; and which job types are skipped."""

    gate: Gate | None = None
    pauses: frozenset[Pause] = frozenset()
    skips: frozenset[TypeSkip] = frozenset()

    def paused(self, scope: Hold) -> frozenset[str]:
        """Return the paused queues, orgs or job types, or the orgs whose budget is spent."""
        return frozenset(pause.name for pause in self.pauses if pause.scope == scope)

    @property
    def held_orgs(self) -> frozenset[str]:
        """The orgs of which nothing is claimed, for whatever reason."""
        return self.paused("org") | self.paused("budget")
