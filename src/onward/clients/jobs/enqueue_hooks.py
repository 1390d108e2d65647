"""Runs the application's functions around an enqueue: the first registered is outermost.

Each is a generator that yields the job to store, and is sent what its enqueue came to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from onward.core.jobs.job import Enqueued, NewJob
from onward.core.policy.registry import AroundEnqueue
from onward.errors import InvalidSetting

Steps = Generator[NewJob, Enqueued, None]


class Passage:
    """The jobs as the functions let them through, and what their enqueue came to."""

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.enqueued: Sequence[Enqueued] = ()


@contextmanager
def around_enqueue(hooks: Sequence[AroundEnqueue], jobs: Iterable[NewJob]) -> Iterator[Passage]:
    """Run the functions around the enqueue in the block, which sets `enqueued`; an error reaches them all."""
    passage = Passage()
    entered: list[tuple[int, AroundEnqueue, Steps]] = []
    try:
        for place, job in enumerate(jobs):
            # What is no job is refused later, by the enqueue itself.
            for hook in hooks if isinstance(job, NewJob) else ():
                steps = hook(job)
                job = _entered(hook, steps)  # noqa: PLW2901 - the next function gets what this one yielded
                entered.append((place, hook, steps))
            passage.jobs.append(job)
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
