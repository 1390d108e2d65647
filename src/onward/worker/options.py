"""The options of a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from onward.core.inputs.duration import Duration
from onward.core.jobs.job import Job
from onward.core.work.lifecycle import Transition
from onward.handlers.start_hooks import StartHook
from onward.worker.attempts.authorization import Authorize
from onward.worker.description import Kind


class WorkerOptions(TypedDict, total=False):
    """The queues (each with its own concurrency, or None), the number of slots, and when to end."""

    queues: Mapping[str, int | None] | None
    concurrency: int
    lease: Duration
    grace: Duration
    drain: bool
    max_jobs: int | None
    max_time: Duration | None
    on_registered: Callable[[str], None] | None
    on_end: Callable[[Job, Transition], None] | None
    authorize: Authorize | None
    on_start: Sequence[StartHook]
    kind: Kind
