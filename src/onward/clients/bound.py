"""What a client binds for each of its calls, except for its transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from onward.core.jobs.actor import Actor
from onward.core.jobs.job import micros
from onward.core.jobs.scope import Scope
from onward.operations.statement import Scalar
from onward.origin import ambient_actor

Role = Literal["caller", "worker", "onward"]


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every call of a client: its org and project, the actor it acts for, and its time."""

    org_id: str | None = None
    project_id: str | None = None
    actor: Actor | None = None
    instant: datetime | None = None
    """The time for tests; None is the database's clock."""
    role: Role = "caller"
    """Who makes the calls: a caller; a worker, which needs no actor; or Onward itself, which has checked what
    the running code may do."""

    @property
    def scope(self) -> Scope:
        """The bound org and project."""
        return Scope(self.org_id, self.project_id)

    def acting(self) -> tuple[str | None, str | None]:
        """Return the type and id of the bound actor, or else of the actor whose code runs here."""
        actor = self.actor or ambient_actor()
        return (None, None) if actor is None else (actor.type, actor.id)

    def usual(self) -> dict[str, Scalar]:
        """Return the parameters of every statement, which a statement's own parameters override."""
        actor_type, actor_id = self.acting()
        now = None if self.instant is None else micros(self.instant)
        return {"now": now, "actor_type": actor_type, "actor_id": actor_id}


UNBOUND = Bound()
