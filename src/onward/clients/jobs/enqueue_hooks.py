"""Runs the application's functions around an enqueue: the first registered is outermost.

Each is a generator that yields the job to store, and is sent what its enqueue came to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.payload import require_arguments
from onward.core.policy.policies import Policies
from onward.core.policy.registry import AroundEnqueue
from onward.errors import InvalidSetting

Steps = Generator[NewJob, Enqueued, None]


class Passage:
    """The jobs as the functions let them through, and what their enqueue came to."""

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.enqueued: Sequence[Enqueued] = ()


@contextmanager
def around_enqueue(policies: Policies, jobs: Iterable[NewJob]) -> Iterator[Passage]:
    """Run the functions around the enqueue in the block, which sets `enqueued`; an error reaches them all."""
    hooks = policies.registry.around_enqueue
    passage = Passage()
    entered: list[tuple[int, AroundEnqueue, Steps]] = []
    try:
        for place, shown in enumerate(jobs):
            job = shown
            # What is no job is refused later, by the enqueue itself.
            for hook in hooks if isinstance(job, NewJob) else ():
                steps = hook(job)
                job = _entered(hook, steps)
                entered.append((place, hook, steps))
            passage.jobs.append(job if job is shown else _checked(job, shown, policies))
        yield passage
        while entered:
            place, hook, steps = entered.pop()
            _left(hook, steps, passage.enqueued[place])
    except BaseException as error:
        while entered:
            _failed(entered.pop()[2], error)
        raise


def _entered(hook: AroundEnqueue, steps: Steps) -> NewJob:
    try:
        job = next(steps)
    except StopIteration:
        raise InvalidSetting(
            f"{_name(hook)} ended before its yield; raise an error to refuse a job"
        ) from None
    if not isinstance(job, NewJob):
        raise InvalidSetting(f"{_name(hook)} yielded {job!r:.80}; yield the job to store: `yield new`")
    return job


def _checked(job: NewJob, shown: NewJob, policies: Policies) -> NewJob:
    """Return a job that the functions changed; raise InvalidArguments for a payload that its type refuses."""
    if not job.typed:
        return job
    if job.job_type != shown.job_type:
        # Its new type checks it, and fills in what is unset.
        return structs.replace(job, typed=False)
    known = policies.registry.job_types.get(job.job_type)
    if known is not None and job.payload != shown.payload:
        require_arguments(job.payload)
        known.check(job.payload)
    return job


def _left(hook: AroundEnqueue, steps: Steps, enqueued: Enqueued) -> None:
    try:
        steps.send(enqueued)
    except StopIteration:
        return
    steps.close()
    raise InvalidSetting(f"{_name(hook)} yielded twice; it runs around one enqueue, so let it yield once")


def _failed(steps: Steps, error: BaseException) -> None:
    """Raise the error of an enqueue at the yield of a function, which can't keep it from the caller."""
    try:
        steps.throw(error)
    except BaseException as again:
        if again is not error and not isinstance(again, StopIteration):
            raise
    else:
        steps.close()


def _name(hook: AroundEnqueue) -> str:
    return f"around_enqueue function {getattr(hook, '__qualname__', repr(hook))}"
