"""The job types that every application has: they keep its tables small."""

from __future__ import annotations

from datetime import timedelta

PRUNE = "onward.prune"
CHECKUP = "onward.checkup"

BUILT_IN = frozenset({PRUNE, CHECKUP})
"""They belong to no org, and ask nobody's permission: no rule for an application's own jobs is about them."""

Q_ONWARD = "q:onward"
"""Where they wait. Every worker serves it, whichever queues it was told to serve, so somebody always does."""

SCHEDULES = {PRUNE: timedelta(hours=1), CHECKUP: timedelta(days=1)}
"""How often each runs, counted from when a worker first came to the database: never at a start."""
