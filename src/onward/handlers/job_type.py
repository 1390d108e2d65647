"""A job type: its function, which can still be called, and its ways into the queue."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from onward.core.job import NewJob
from onward.handlers.clients import Clients
from onward.handlers.handle import Handle
from onward.handlers.handler import Handler
from onward.handlers.options import Options, Request
from onward.handlers.signature import Signature

__all__ = ["JobFunction", "JobType"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class JobType(Generic[P, R]):
    """Enqueues jobs of one type: P are the arguments without the Context, R is what the handler returns."""

    def __init__(self, handler: Handler, signature: Signature, clients: Clients, request: Request) -> None:
        self.handler = handler
        self.name = handler.job_type
        self._signature = signature
        self._clients = clients
        self._request = request

    def __repr__(self) -> str:
        return f"<job type {self.name}: {self._signature.text}>"

    def using(self, **options: Unpack[Options]) -> JobType[P, R]:
        """Give the same job type with options for its enqueues."""
        return JobType(self.handler, self._signature, self._clients, self._request.using(options))

    def build(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Check the arguments and give the job that would be stored, for `enqueue_many`."""
        return self._request.build(self._signature.payload(args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Check the arguments and store a job, or find the one that holds its key."""
        new = self._request.build(self._signature.payload(args, kwargs))
        client = self._clients.sync
        if self._request.tx is not None:
            client = client.within(self._request.tx)
        return Handle(client.enqueue(new), self._clients)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Do the same, awaited."""
        new = self._request.build(self._signature.payload(args, kwargs))
        client = self._clients.current()
        if self._request.tx is not None:
            client = client.within(self._request.tx)
        return Handle(await client.enqueue(new), self._clients)


class JobFunction(JobType[P, R], Generic[Q, S, P, R]):
    """A job type as it was defined: called, it runs its function here and now, without a queue."""

    __wrapped__: Any

    def __init__(self, handler: Handler, signature: Signature, clients: Clients, request: Request) -> None:
        # First, since it also copies the function's own attributes, whatever their names.
        update_wrapper(self, handler.function)
        super().__init__(handler, signature, clients, request)

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> S:
        """Run the function itself, with a Context of the caller's if it takes one."""
        return self.handler.function(*args, **kwargs)  # type: ignore[no-any-return]
