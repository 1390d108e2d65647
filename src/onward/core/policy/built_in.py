"""The maintenance job types that every application has: they keep its tables small."""

from __future__ import annotations

from datetime import timedelta

PRUNE = "onward.prune"
CHECKUP = "onward.checkup"

BUILT_IN = frozenset({PRUNE, CHECKUP})
"""They belong to no org and need no authorization: the policies for an application's jobs do not apply."""

Q_ONWARD = "q:onward"
"""Their queue. Every worker serves it besides the queues it is configured for, so it is always served."""

SCHEDULES = {PRUNE: timedelta(hours=1), CHECKUP: timedelta(days=1)}
"""How often each runs, counted from when a worker first used the database; a worker's start runs none."""
