"""Let callers that enqueue at the same time share one statement, and so one commit.

A caller sends its own statement at once while fewer than `_UNDER_WAY` are under way. Later callers gather,
and go together in one statement as soon as a statement under way has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from onward.errors import DuplicateJob, InvalidJob, StoreError

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")

# Two statements at once keep the server busy while answers travel; more would make the groups smaller.
_UNDER_WAY = 2
_MOST_AT_ONCE = 1000
# These errors concern one caller of the group and have changed nothing: the other callers must not fail with
# it.
_OF_ONE = (InvalidJob, DuplicateJob)


class AsyncGathering(Generic[Ask, Answer]):
    """Groups the calls of tasks on one event loop."""

    def __init__(
        self,
        one: Callable[[Ask], Awaitable[Answer]],
        many: Callable[[Sequence[Ask]], Awaitable[Sequence[Answer]]],
    ) -> None:
        self._one = one
        self._many = many
        self._under_way = 0
        self._gathered: list[tuple[Ask, asyncio.Future[Answer]]] = []
        self._groups: set[asyncio.Task[None]] = set()

    async def ask(self, asked: Ask) -> Answer:
        """Return the answer to one call, whichever callers shared its statement."""
        if self._under_way >= _UNDER_WAY:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._gathered.append((asked, future))
            return await future
        self._under_way += 1
        try:
            return await self._one(asked)
        finally:
            self._land()

    def _land(self) -> None:
        self._under_way -= 1
        if self._gathered:
            self._under_way += 1
            # The group runs in its own task, so that cancelling one caller does not cancel the others.
            group = asyncio.create_task(self._go())
            self._groups.add(group)
            group.add_done_callback(self._groups.discard)

    async def _go(self) -> None:
        group, self._gathered = self._gathered[:_MOST_AT_ONCE], self._gathered[_MOST_AT_ONCE:]
        group = [pair for pair in group if not pair[1].done()]
        try:
            answers = await self._many([asked for asked, _ in group])
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        except _OF_ONE:
            await asyncio.gather(*(self._alone(asked, future) for asked, future in group))
        except BaseException as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(_passed_on(error))
            if not isinstance(error, Exception):
                raise
        finally:
            self._land()

    async def _alone(self, asked: Ask, future: asyncio.Future[Answer]) -> None:
        try:
            answer = await self._one(asked)
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(answer)


class Gathering(Generic[Ask, Answer]):
    """Groups the calls of threads."""

    def __init__(
        self, one: Callable[[Ask], Answer], many: Callable[[Sequence[Ask]], Sequence[Answer]]
    ) -> None:
        self._one = one
        self._many = many
        self._lock = threading.Lock()
        self._under_way = 0
        self._gathered: list[tuple[Ask, Future[Answer | None]]] = []

    def ask(self, asked: Ask) -> Answer:
        """Return the answer to one call, whichever callers shared its statement."""
        future: Future[Answer | None] | None = None
        with self._lock:
            if self._under_way < _UNDER_WAY:
                self._under_way += 1
            else:
                future = Future()
                self._gathered.append((asked, future))
        if future is not None:
            answer = future.result()
            return self._lead(asked) if answer is None else answer
        try:
            return self._one(asked)
        finally:
            self._land()

    def _lead(self, asked: Ask) -> Answer:
        with self._lock:
            group, self._gathered = self._gathered[:_MOST_AT_ONCE], self._gathered[_MOST_AT_ONCE:]
        try:
            if not group:
                return self._one(asked)
            answers = self._many([asked, *(other for other, _ in group)])
        except _OF_ONE:
            for other, future in group:
                self._alone(other, future)
            return self._one(asked)
        except BaseException as error:
            for _, future in group:
                future.set_exception(_passed_on(error))
            raise
        else:
            for (_, future), answer in zip(group, answers[1:], strict=True):
                future.set_result(answer)
            return answers[0]
        finally:
            self._land()

    def _alone(self, asked: Ask, future: Future[Answer | None]) -> None:
        try:
            future.set_result(self._one(asked))
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            future.set_exception(error)

    def _land(self) -> None:
        with self._lock:
            self._under_way -= 1
            if self._gathered:
                self._under_way += 1
                _, future = self._gathered.pop(0)
                future.set_result(None)


def _passed_on(error: BaseException) -> Exception:
    """Return the error for callers whose jobs another caller sent.

    They get its error, but not its cancellation, which concerns that caller alone.
    """
    if isinstance(error, Exception):
        return error
    return StoreError("the statement was cut short; whether the job was stored is not known")
