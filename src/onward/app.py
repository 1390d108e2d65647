"""The facade: one object with the database, the settings and the job types of an application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from uuid import UUID

from onward.clients.client import AsyncClient
from onward.clients.records.links import link_to
from onward.clients.sync.client import Client
from onward.core.failures.alert import Alert
from onward.core.failures.app_rules import ErrorTypes, Judge, RuleOptions
from onward.core.failures.breaker import QUEUE, BreakerOptions, BreakerSettings, check_provider
from onward.core.failures.verdict import Kind
from onward.core.flows.flow import Flow
from onward.core.inputs.checks import positive, whole_number
from onward.core.inputs.duration import Duration
from onward.core.inputs.fields import LONGEST, check_text, check_texts
from onward.core.jobs.actor import Actor
from onward.core.jobs.job import WAITING, NewJob
from onward.core.limits.queue_policy import QueueOptions, QueuePolicy
from onward.core.policy.category import Category
from onward.core.policy.contract import check_present
from onward.core.policy.policies import Policies
from onward.core.policy.registry import AroundEnqueue
from onward.core.policy.settings import SettingOptions
from onward.core.records.artifact import Artifact
from onward.core.schedules.schedule import Schedule, ScheduleOptions
from onward.core.work.tick import Tick
from onward.core.work.wait import Sent
from onward.errors import InvalidJob, InvalidSetting
from onward.handlers.built_in_jobs import built_in, served
from onward.handlers.clients import Clients, confined, module_of_caller
from onward.handlers.context.context_effects import is_dry_run
from onward.handlers.context.event_loop import check_may_block
from onward.handlers.context.providers import report_broken_rule
from onward.handlers.declared_schedules import schedule_of
from onward.handlers.definition import AnyJobFunction, JobDecorator, register
from onward.handlers.enqueue_options import check_names
from onward.handlers.handler import Handler
from onward.handlers.handles.batch_handle import BatchHandle, BatchOptions, OpenBatch
from onward.handlers.handles.flow_handle import FlowHandle
from onward.handlers.handles.handle import Handle, handle_of
from onward.handlers.hooks.around_hooks import AroundHooks
from onward.handlers.hooks.resources import ResourceDecorator
from onward.handlers.hooks.worker_hooks import StartHooks, StopHooks
from onward.handlers.job_type import JobType
from onward.handlers.signal_sender import SignalOptions, read_signal
from onward.origin import ambient
from onward.origin_threads import follow_origins
from onward.sinks import add_sink, sinks_of

if TYPE_CHECKING:
    from onward.worker.attempts.authorization import Authorize
    from onward.worker.options import WorkerOptions
    from onward.worker.worker import Worker

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
A = TypeVar("A", bound="Authorize")
S = TypeVar("S", bound=Callable[[Alert], object])
E = TypeVar("E", bound=AroundEnqueue)
J = TypeVar("J", bound=Judge)


class Onward:
    """An application's job types and their database: the URL, else ONWARD_URL, else ./onward.db.

    A `name` keeps its tables apart from those of other applications on this database. The settings are its
    policies for all jobs: `tenancy`, `contract`, `profile`, `categories`, `routes`, ….
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        schema: str | None = None,
        row_security: bool = False,
        **settings: Unpack[SettingOptions],
    ) -> None:
        check_names("Onward()", settings, SettingOptions.__annotations__)
        if settings.get("dry_run") is None:
            settings["dry_run"] = is_dry_run()
        settings["alerts"] = sinks_of(settings.get("alerts"))
        self.policies = Policies.of(**settings)
        self.policies.registry.classification.report = report_broken_rule
        self.clients = Clients(
            url, name=name, module=module_of_caller(), schema=schema, policies=self.policies,
            row_security=row_security, in_code=True,
        )  # fmt: skip
        self.handlers: dict[str, Handler] = {}
        self.jobs: dict[str, AnyJobFunction] = {}
        self.job = JobDecorator(self.clients, self._add)
        self._authorize: Authorize | None = None
        self.on_start = StartHooks()
        self.on_stop = StopHooks()
        self.resource = ResourceDecorator()
        self.around = AroundHooks()

    @property
    def client(self) -> Client:
        """The client that all threads share."""
        return self.clients.sync

    @property
    def aclient(self) -> AsyncClient:
        """The client of the running event loop."""
        return self.clients.current()

    def within(self, tx: object) -> Client:
        """Return a client bound to the caller's open transaction, which it never ends."""
        return self.clients.sync.within(tx)

    def awithin(self, tx: object) -> AsyncClient:
        """Return an async client bound to the caller's open transaction, which it never ends."""
        return self.clients.current().within(tx)

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Handle[Any]]:
        """Enqueue jobs that `.build()` made, all or none; return their handles in the same order."""
        return [Handle(enqueued, self.clients) for enqueued in self.clients.sync.enqueue_many(jobs)]

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> list[Handle[Any]]:
        """Enqueue jobs that `.build()` made, all or none; return their handles in the same order."""
        enqueued = await self.clients.current().enqueue_many(jobs)
        return [Handle(one, self.clients) for one in enqueued]

    def enqueue_batch(self, jobs: Iterable[NewJob], **options: Unpack[BatchOptions]) -> BatchHandle:
        """Enqueue jobs as a batch, all or none, with callback jobs for when the last of them has ended.

        `on_success` runs if all succeeded, `on_failure` if any is dead or cancelled, `on_complete` always.
        """
        check_names("enqueue_batch()", options, BatchOptions.__annotations__)
        return BatchHandle(self.clients.sync.batches.enqueue(jobs, **options).id, self.clients)

    async def aenqueue_batch(self, jobs: Iterable[NewJob], **options: Unpack[BatchOptions]) -> BatchHandle:
        """Enqueue jobs as a batch, all or none, with callback jobs for when the last of them has ended."""
        check_names("aenqueue_batch()", options, BatchOptions.__annotations__)
        made = await self.clients.current().batches.enqueue(jobs, **options)
        return BatchHandle(made.id, self.clients)

    def batch(self, **options: Unpack[BatchOptions]) -> OpenBatch:
        """Return a batch to fill: `with app.batch(on_complete=…) as batch: batch.add(…)`, or `async with`."""
        check_names("batch()", options, BatchOptions.__annotations__)
        return OpenBatch(self.clients, options)

    def enqueue_flow(self, flow: Flow | NewJob, *, tx: object = None) -> FlowHandle:
        """Enqueue the jobs of a flow that `.then()` or `group()` made, all or none, in `tx` if given."""
        client = self.clients.sync if tx is None else self.within(tx)
        return FlowHandle(client.enqueue_flow(flow), self.clients)

    async def aenqueue_flow(self, flow: Flow | NewJob, *, tx: object = None) -> FlowHandle:
        """Enqueue the jobs of a flow that `.then()` or `group()` made, all or none, in `tx` if given."""
        client = self.clients.current() if tx is None else self.awithin(tx)
        return FlowHandle(await client.enqueue_flow(flow), self.clients)

    def handle(self, job_id: str | UUID) -> Handle[Any]:
        """Return the handle of a job that was enqueued anywhere; it reads nothing yet."""
        return handle_of(job_id, self.clients)

    def signal(
        self, event: str, *, key: str | None = None, payload: Any = None, **options: Unpack[SignalOptions]
    ) -> Sent:
        """Send a signal to the jobs that wait for this event and key, now or while the signal is kept."""
        call = read_signal(options)
        with self.context(org_id=call.org_id):
            return call.bound(self.clients.sync).signals.send(event, key, payload, keep=call.keep)

    async def asignal(
        self, event: str, *, key: str | None = None, payload: Any = None, **options: Unpack[SignalOptions]
    ) -> Sent:
        """Send a signal to the jobs that wait for this event and key, now or while the signal is kept."""
        call = read_signal(options)
        with self.context(org_id=call.org_id):
            return await call.bound(self.clients.current()).signals.send(event, key, payload, keep=call.keep)

    def context(
        self,
        *,
        org_id: str | None = None,
        project_id: str | None = None,
        actor: str | tuple[str, str] | None = None,
        request_id: str | None = None,
        correlation_id: str | None = None,
        traceparent: str | None = None,
    ) -> AbstractContextManager[None]:
        """Make the jobs that are enqueued within inherit these fields, unless they set their own.

        An `org_id` or `project_id` also confines the calls within, and those in threads that start within.
        """
        read = None if actor is None else Actor.of(actor, InvalidJob)
        actor_type, actor_id = (None, None) if read is None else (read.type, read.id)
        fields = {
            "org_id": org_id, "project_id": project_id, "actor_type": actor_type, "actor_id": actor_id,
            "request_id": request_id, "correlation_id": correlation_id, "traceparent": traceparent,
        }  # fmt: skip
        check_texts(fields)
        check_present(self.policies, org_id, project_id, actor_type, actor_id)
        if org_id is not None or project_id is not None:
            follow_origins()
        return ambient(**fields)

    def category(self, own: Category) -> Category:
        """Add a category; to change a preset, pass it to `Onward(categories=…)` instead."""
        if isinstance(own, Category) and own.name in self.policies.registry.categories:
            raise InvalidSetting(
                f"the category {own.name!r} is there already; give it to Onward(categories=[…]) to change it"
            )
        return self.policies.add_category(own)

    def breaker(
        self,
        provider: str | None = None,
        *,
        queue: str | None = None,
        **options: Unpack[BreakerOptions],
    ) -> BreakerSettings:
        """Configure the breaker of a provider, and of its keys (`name:…`), or of a queue.

        A job type with a `provider=` has a breaker without this call; a queue has one only by this call.
        """
        check_names("breaker()", options, ("queue", *BreakerOptions.__annotations__))
        if (provider is None) == (queue is None):
            raise InvalidSetting("breaker() is for one provider or one queue; give a name, or queue=")
        settings = BreakerSettings.of(**options)
        if queue is not None:
            check_text("queue", queue, longest=LONGEST["queue"] - len(QUEUE))
        name = check_provider(provider) if queue is None else f"{QUEUE}{queue}"
        self.policies.registry.add_breaker(name, settings)
        return settings

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> QueuePolicy:
        """Declare the policy of a queue: `concurrency`, `rate` and `burst`, `fair` and `weights`, `ageing`.

        Workers write it to the database, where it holds for all; without options it lifts the stored policy.
        """
        check_names("queue()", options, QueueOptions.__annotations__)
        check_text("queue", name, longest=LONGEST["queue"])
        return self.policies.registry.add_queue(name, QueuePolicy.of(**options))

    def authorize(self, function: A) -> A:
        """Register a check that workers call before each attempt; False or PermissionError ends the job."""
        if self._authorize is not None:
            raise InvalidSetting("authorize() has been called before; one check decides, let it call others")
        self._authorize = function
        return function

    def schedule(
        self,
        name: str,
        job: JobType[..., Any] | NewJob | str,
        *,
        payload: Mapping[str, Any] | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Store a schedule for a job type or a job, or change the one of its name; workers see it at once."""
        new = schedule_of(name, job, payload, options, self.policies, jobs=self.jobs)
        return self.client.schedules.put(new, reason=reason)

    async def aschedule(
        self,
        name: str,
        job: JobType[..., Any] | NewJob | str,
        *,
        payload: Mapping[str, Any] | None = None,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Store a schedule for a job type or a job, or change the one of its name; workers see it at once."""
        new = schedule_of(name, job, payload, options, self.policies, jobs=self.jobs)
        return await self.aclient.schedules.put(new, reason=reason)

    def around_enqueue(self, function: E) -> E:
        """Register a function that yields the job to store, and is sent what the enqueue came to."""
        self.policies.registry.add_around_enqueue(function)
        return function

    def alert_sink(self, function: S) -> S:
        """Register a function that is called with every alert, besides the sinks of `Onward(alerts=…)`."""
        add_sink(self.policies.registry.sinks, function)
        return function

    @overload
    def classify(self, errors: J, /, *, name: str | None = None) -> J: ...
    @overload
    def classify(
        self, errors: ErrorTypes, verdict: Kind, *, name: str, **about: Unpack[RuleOptions]
    ) -> None: ...
    @overload
    def classify(self, *, verdict: Kind, name: str, **about: Unpack[RuleOptions]) -> None: ...
    def classify(
        self, errors: Any = None, verdict: Any = None, *, name: str | None = None, **about: Any
    ) -> Any:
        """Add a rule that classifies errors of attempts; it applies before the built-in rules.

        All given conditions must match: exception types, an HTTP answer's `status`, `pattern` in the message.
        Or decorate a function that takes the error and returns a verdict, or None if it has none.
        """
        if callable(errors) and not isinstance(errors, type) and verdict is None and not about:
            self.policies.registry.classification.add_function(errors, name)
            return errors
        check_names("app.classify()", about, RuleOptions.__annotations__)
        self.policies.registry.classification.add(errors, verdict, name=name, **about)
        return None

    def hint(self, what: type[BaseException] | str, text: str, *, link: str | None = None) -> None:
        """Add a hint for operators about an exception class or a rule; an error's own hint precedes it."""
        self.policies.registry.classification.add_hint(what, text, link)

    def artifact_link(
        self, artifact: Artifact | str, base_url: str = "", *, ttl: Duration = "72h", role: str | None = None
    ) -> str:
        """Return a link by which any holder can read an artifact for `ttl`; `{id}` in the URL is its id."""
        client = confined(self.client, artifact) if isinstance(artifact, Artifact) else self.client
        return link_to(artifact, base_url, client.artifacts.sign(artifact, expires_in=ttl, role=role))

    async def aartifact_link(
        self, artifact: Artifact | str, base_url: str = "", *, ttl: Duration = "72h", role: str | None = None
    ) -> str:
        """Return a link by which any holder can read an artifact for `ttl`; `{id}` in the URL is its id."""
        client = confined(self.aclient, artifact) if isinstance(artifact, Artifact) else self.aclient
        return link_to(artifact, base_url, await client.artifacts.sign(artifact, expires_in=ttl, role=role))

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """Return a worker: `async with app.worker():`, or `await app.worker(drain=True).run()`."""
        from onward.worker.worker import Worker

        options.setdefault("authorize", self._authorize)
        options.setdefault("on_start", tuple(self.on_start))
        options.setdefault("on_stop", tuple(self.on_stop))
        options.setdefault("around", tuple(self.around))
        if not self.policies.settings.maintenance:
            return Worker(self.handlers, self.clients, **options)
        options["queues"] = served(options.get("queues"))
        return Worker({**built_in(self.clients), **self.handlers}, self.clients, **options)

    def tick(self, max_jobs: int = 10, max_seconds: Duration = 20) -> Tick:
        """Run due jobs, at most `max_jobs` in `max_seconds`, and return: for cron and serverless hosts.

        A job that runs longer is cancelled and goes back to its queue; that uses no attempt.
        """
        from onward.worker.tick_loop import run_tick

        async def once() -> Tick:
            try:
                return await self.atick(max_jobs, max_seconds)
            finally:
                await self.clients.aclose()

        check_may_block("app.tick()", "await app.atick()")
        return run_tick(once())

    async def atick(self, max_jobs: int = 10, max_seconds: Duration = 20) -> Tick:
        """Run due jobs, at most `max_jobs` in `max_seconds`, and return: for cron and serverless hosts.

        A job that runs longer is cancelled and goes back to its queue; that uses no attempt.
        """
        whole_number("max_jobs", max_jobs, 1, 1_000_000)
        max_time = positive("max_seconds", max_seconds)
        started = time.monotonic()
        tick = self.worker(drain=True, max_jobs=max_jobs, max_time=max_time, grace=0, kind="tick")
        tally = await tick.run()
        counts = await self.clients.current().jobs.count()
        waiting = sum(counts.total(state) for state in WAITING)
        took = timedelta(seconds=time.monotonic() - started)
        return Tick(tally.processed, tally.succeeded, tally.retried, tally.dead, waiting, took)

    def lifespan(self, *, worker: bool = True, **options: Unpack[WorkerOptions]) -> Lifespan:
        """Return an ASGI application's lifespan: it runs a worker, and closes the clients at the end."""

        @asynccontextmanager
        async def lifespan(_application: Any) -> AsyncIterator[None]:
            try:
                if worker:
                    async with self.worker(**options):
                        yield
                else:
                    yield
            finally:
                await self.aclose()

        return lifespan

    def close(self) -> None:
        """Close the shared client; its next use opens a new one."""
        self.clients.close()

    async def aclose(self) -> None:
        """Close the client of the running event loop, and the shared one."""
        await self.clients.aclose()
        await asyncio.to_thread(self.clients.close)

    def _add(self, job_type: AnyJobFunction) -> None:
        register(job_type, self.handlers, self.jobs, self.policies)
