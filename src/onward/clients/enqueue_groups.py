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

Request = TypeVar("Request")
Answer = TypeVar("Answer")

# Two statements at once keep the server busy while answers travel; more would make the groups smaller.
_UNDER_WAY = 2
_MOST_AT_ONCE = 1000
# These errors concern one caller of the group and have changed nothing: the other callers must not fail with
# it.
_OF_ONE = (InvalidJob, DuplicateJob)


class AsyncGathering(Generic[Request, Answer]):
    """Groups the calls of tasks on one event loop."""

    def __init__(
        self,
        one: Callable[[Request], Awaitable[Answer]],
        many: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
    ) -> None:
        self._one = one
        self._many = many
        self._under_way = 0
        self._gathered: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._groups: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Answer:
        """Return the answer to one call, whichever callers shared its statement."""
        if self._under_way >= _UNDER_WAY:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._gathered.append((request, future))
            return await future
        self._under_way += 1
        try:
            return await self._one(request)
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
            answers = await self._many([request for request, _ in group])
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        except _OF_ONE:
            await asyncio.gather(*(self._alone(request, future) for request, future in group))
        except BaseException as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(_passed_on(error))
            if not isinstance(error, Exception):
                raise
        finally:
            self._land()

    async def _alone(self, request: Request, future: asyncio.Future[Answer]) -> None:
        try:
            answer = await self._one(request)
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(answer)


class Gathering(Generic[Request, Answer]):
    """Groups the calls of threads."""

    def __init__(
        self, one: Callable[[Request], Answer], many: Callable[[Sequence[Request]], Sequence[Answer]]
    ) -> None:
        self._one = one
        self._many = many
        self._lock = threading.Lock()
        self._under_way = 0
        self._gathered: list[tuple[Request, Future[Answer | None]]] = []

    def ask(self, request: Request) -> Answer:
        """Return the answer to one call, whichever callers shared its statement."""
        future: Future[Answer | None] | None = None
        with self._lock:
            if self._under_way < _UNDER_WAY:
                self._under_way += 1
            else:
                future = Future()
                self._gathered.append((request, future))
        if future is not None:
            answer = future.result()
            return self._lead(request) if answer is None else answer
        try:
            return self._one(request)
        finally:
            self._land()

    def _lead(self, request: Request) -> Answer:
        with self._lock:
            group, self._gathered = self._gathered[:_MOST_AT_ONCE], self._gathered[_MOST_AT_ONCE:]
        try:
            if not group:
                return self._one(request)
            answers = self._many([request, *(other for other, _ in group)])
        except _OF_ONE:
            for other, future in group:
                self._alone(other, future)
            return self._one(request)
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

    def _alone(self, request: Request, future: Future[Answer | None]) -> None:
        try:
            future.set_result(self._one(request))
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
