"""A job type: its function, which can still be called, and the ways to enqueue its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack
from uuid import UUID

from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.job_types import DeclaredJobType
from onward.core.jobs.payload import require_arguments
from onward.core.policy.policies import Policies
from onward.core.secrets.redaction import redact_text
from onward.errors import InvalidArguments, StoreError
from onward.handlers.clients import Clients
from onward.handlers.enqueue_options import Options, Request
from onward.handlers.handler import Handler
from onward.handlers.handles.handle import Handle, handle_of
from onward.handlers.signature import Signature
from onward.logs import get_logger
from onward.operations.jobs.new_rows import new_row
from onward.origin import filled, inherit

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

log = get_logger("onward.enqueue")

_OF_CELERY = {"delay", "apply_async"}

NO_JOB = "00000000-0000-7000-8000-000000000000"
"""The id in the handle of a best-effort job that could not be stored."""


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A job type as clients know it, by its name: it fills in jobs that were made without it."""

    signature: Signature
    request: Request
    policies: Policies
    declared: DeclaredJobType

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise InvalidArguments for a payload that the handler's signature does not accept."""
        self.signature.arguments(payload)

    def effective(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with which a payload takes effect, as JSON values, defaults filled in."""
        return self.signature.effective(payload)

    def fill(self, new: NewJob) -> NewJob:
        """Return a checked job of this type, its unset fields filled in as an enqueue of the type would."""
        self._check(new)
        return self.request.fill(new, self.policies)

    def fill_run(self, new: NewJob) -> tuple[NewJob, timedelta | None]:
        """Return the same for the runs of a schedule, which have own keys and deadlines.

        The second value is the time from a run to its deadline.
        """
        self._check(new)
        return self.request.for_runs().fill(new, self.policies), self.request.allowed

    def _check(self, new: NewJob) -> None:
        require_arguments(new.payload)
        self.check(new.payload)


class JobType(Generic[P, R]):
    """Enqueues jobs of one type: P are the arguments without the Context, R is what the handler returns."""

    def __init__(self, handler: Handler, signature: Signature, clients: Clients, request: Request) -> None:
        self.handler = handler
        self.name = handler.job_type
        self.clients = clients
        self._signature = signature
        self._request = request

    def __repr__(self) -> str:
        return f"<job type {self.name}: {self._signature.text}>"

    if not TYPE_CHECKING:  # else type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with the fix for the names that Celery has."""
            if name in _OF_CELERY:
                raise AttributeError(
                    f"a job type has no .{name}(); enqueue a job by .enqueue(…), with options by "
                    ".using(delay='5m', priority=3).enqueue(…)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def using(self, **options: Unpack[Options]) -> JobType[P, R]:
        """Return the same job type with options for its enqueues."""
        return JobType(self.handler, self._signature, self.clients, self._request.using(options))

    def build(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Check the arguments and return the job that would be stored, for `enqueue_many`."""
        return filled(self._new(args, kwargs), self.clients.policies)

    def request_for(self, kwargs: dict[str, Any]) -> tuple[Request, dict[str, Any]]:
        """Check the arguments; return the request and the payload, for a caller that makes jobs later."""
        return self._request, self._signature.payload((), kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Check the arguments and store a job, or find the job that holds its key."""
        new = self._new(args, kwargs)
        client = self.clients.sync
        if self._request.tx is not None:
            return Handle(client.within(self._request.tx).enqueue(new), self.clients)
        try:
            return Handle(client.enqueue(new), self.clients)
        except StoreError as error:
            return Handle(self._forgone(new, error), self.clients)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Check the arguments and store a job, or find the job that holds its key."""
        new = self._new(args, kwargs)
        client = self.clients.current()
        if self._request.tx is not None:
            return Handle(await client.within(self._request.tx).enqueue(new), self.clients)
        try:
            return Handle(await client.enqueue(new), self.clients)
        except StoreError as error:
            return Handle(self._forgone(new, error), self.clients)

    def handle(self, job_id: str | UUID) -> Handle[R]:
        """Return the handle of a job of this type that was enqueued anywhere; it reads nothing yet."""
        return handle_of(job_id, self.clients)

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        try:
            payload = self._signature.payload(args, kwargs)
        except InvalidArguments as error:
            raise self._advised(error, kwargs) from None
        return self._request.build(payload, self.clients.policies)

    def _advised(self, error: InvalidArguments, kwargs: dict[str, Any]) -> InvalidArguments:
        """Return the error, with the call to make instead where an option was given as an argument."""
        misplaced = kwargs.keys() & Options.__annotations__.keys() - set(self._signature.names)
        if not misplaced:
            return error
        options = ", ".join(
            f"{name}={redact_text(repr(value)):.40}" for name, value in kwargs.items() if name in misplaced
        )
        named = " and ".join(sorted(misplaced)) + (" is an option" if len(misplaced) == 1 else " are options")
        return InvalidArguments(f"{error}\n  {named} of the enqueue: .using({options}).enqueue(…)")

    def _forgone(self, new: NewJob, error: StoreError) -> Enqueued:
        """Go on without a job of a best-effort category, so that its caller does not fail with it."""
        policies = self.clients.policies
        if not policies.category(new.category).best_effort:
            raise error
        # An invalid job still raises its own error, although the database failed first.
        [complete] = inherit([new], policies)
        new_row(complete, NO_JOB, policies)
        log.error("a job of type %s could not be stored, and is forgone: %s", new.job_type, error)
        return Enqueued(NO_JOB, None, created=False)


class JobFunction(JobType[P, R], Generic[Q, S, P, R]):
    """A job type as it was defined: calling it runs its function here and now, without a queue."""

    __wrapped__: Any

    def __init__(self, handler: Handler, signature: Signature, clients: Clients, request: Request) -> None:
        # First: it copies the function's attributes, which could overwrite ours if it came later.
        update_wrapper(self, handler.function)
        super().__init__(handler, signature, clients, request)

    @property
    def known(self) -> DeclaredType:
        """What clients know of this job type."""
        return DeclaredType(self._signature, self._request, self.clients.policies, self.handler.declared)

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> S:
        """Run the function itself; the caller passes a Context if it takes one."""
        return self.handler.function(*args, **kwargs)  # type: ignore[no-any-return]
