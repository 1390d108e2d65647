"""The options of a worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import TypedDict

from onward.core.inputs.checks import not_negative, whole_number
from onward.core.inputs.duration import Duration
from onward.core.jobs.job import Job
from onward.core.policy.built_in import BUILT_IN
from onward.core.work.lifecycle import Transition
from onward.errors import InvalidSetting
from onward.handlers.handler import Handler
from onward.handlers.hooks.around_hooks import AroundHook
from onward.handlers.hooks.worker_hooks import StartHook, WorkerHook
from onward.worker.attempts.authorization import Authorize
from onward.worker.description import Kind
from onward.worker.timings import Timings

_TIMINGS = Timings()


class WorkerOptions(TypedDict, total=False):
    """The queues (each with its concurrency, or None), job types, number of slots, and when to end."""

    queues: Mapping[str, int | None] | None
    types: Collection[str] | None
    concurrency: int
    lease: Duration
    grace: Duration
    drain: bool
    max_jobs: int | None
    max_time: Duration | None
    on_registered: Callable[[str], None] | None
    on_end: Callable[[Job, Transition], None] | None
    authorize: Authorize | None
    around: Sequence[AroundHook]
    on_start: Sequence[StartHook]
    on_stop: Sequence[WorkerHook]
    kind: Kind
    timings: Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The options of a worker after their check, with defaults for those that were left out."""

    queues: Mapping[str, int | None] | None = None
    types: Collection[str] | None = None
    concurrency: int = 10
    lease: Duration = timedelta(seconds=30)
    grace: Duration = timedelta(seconds=30)
    drain: bool = False
    max_jobs: int | None = None
    max_time: Duration | None = None
    on_registered: Callable[[str], None] | None = None
    on_end: Callable[[Job, Transition], None] | None = None
    authorize: Authorize | None = None
    around: Sequence[AroundHook] = ()
    on_start: Sequence[StartHook] = ()
    on_stop: Sequence[WorkerHook] = ()
    kind: Kind = "worker"
    timings: Timings = _TIMINGS

    def __post_init__(self) -> None:
        """Raise InvalidSetting for an empty selection of queues, a concurrency or a time that can't be."""
        whole_number("concurrency", self.concurrency, 1, 10_000)
        if self.queues is not None and not self.queues:
            raise InvalidSetting("queues is empty; name at least one, or leave it out to serve all")
        for name, most in (self.queues or {}).items():
            if most is not None:
                whole_number(f"the concurrency of {name}", most, 1, 10_000)
        if self.types is not None and (isinstance(self.types, str) or not self.types):
            raise InvalidSetting(
                f"types is {self.types!r:.80}; give a list of job types, or leave it out to run all"
            )
        not_negative("lease", self.lease)
        not_negative("grace", self.grace)
        if self.max_time is not None:
            not_negative("max_time", self.max_time)

    def served(self, handlers: Mapping[str, Handler]) -> Mapping[str, Handler]:
        """Return the handlers of the types that the worker runs; raise InvalidSetting for a misspelt one."""
        if self.types is None:
            return handlers
        for name in self.types:
            if name not in handlers:
                near = get_close_matches(str(name), handlers, 1)
                meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(handlers))}"
                raise InvalidSetting(f"types names {name!r:.80}, which this app does not define; {meant}")
        return {name: handler for name, handler in handlers.items() if name in self.types or name in BUILT_IN}
