"""Make a job type from a function, as `@app.job` does, and add it to its application."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from msgspec import structs

from onward.core.failures.breaker import check_provider
from onward.core.inputs.checks import check_kind, whole_number
from onward.core.jobs.job import NewJob
from onward.core.jobs.job_types import DeclaredJobType
from onward.core.limits.limit import add_limit, read_limit
from onward.core.policy.built_in import BUILT_IN
from onward.core.policy.category import DEFAULT_CATEGORY
from onward.core.policy.policies import Policies
from onward.core.schedules.schedule import NewSchedule
from onward.core.secrets.secret_policy import Secrets
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting
from onward.handlers.audit_actions import read_actions
from onward.handlers.clients import Clients
from onward.handlers.context.context import Context
from onward.handlers.declared_schedules import schedule_in_code
from onward.handlers.enqueue_options import Defaults, Request, check_names
from onward.handlers.handler import Executor, Handler, Provider
from onward.handlers.hooks.resources import check_usable
from onward.handlers.job_keys import key_maker
from onward.handlers.job_type import JobFunction
from onward.handlers.lazy_function import LazyFunction, LazySignature
from onward.handlers.signature import Signature
from onward.operations.jobs.new_rows import new_row

P = ParamSpec("P")
R = TypeVar("R")

AnyJobFunction = JobFunction[..., Any, ..., Any]

_EXECUTORS = ("async", "thread", "process")
_MOST_MEMORY = 2**50
_LAMBDA = (lambda: None).__name__


class _Anything:
    """A type that only a parameter without an annotation, or with object or Any, accepts."""


class JobDecorator:
    """`@app.job` and `@app.job(…)`: a call with options returns a decorator with those options."""

    def __init__(
        self,
        clients: Clients,
        add: Callable[[AnyJobFunction], None],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._clients = clients
        self._add = add
        self._options = options or {}

    # The order of the overloads matters. A first parameter without an annotation may be a Context or not, so
    # its job type takes any arguments. Then come functions with a Context, and without. Each time the async
    # function comes first, since its result is what awaiting it returns.
    @overload
    def __call__(self, function: str, /, **options: Unpack[Defaults]) -> AnyJobFunction: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, P], Coroutine[Any, Any, R]], /
    ) -> JobFunction[..., Coroutine[Any, Any, R], ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, P], R], /
    ) -> JobFunction[..., R, ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> JobFunction[Concatenate[Context, P], Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> JobFunction[Concatenate[Context, P], R, P, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobFunction[P, Coroutine[Any, Any, R], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R, P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[Defaults]) -> JobDecorator: ...
    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        """Define a job type, or return a decorator with these options.

        A text `"module:function"` names a handler that is imported when it first runs.
        """
        chosen = cast("Defaults", {**self._options, **options})
        if function is None:
            return JobDecorator(self._clients, self._add, chosen)
        made = define_lazily if isinstance(function, str) else define
        job_type = made(function, self._clients, chosen)
        self._add(job_type)
        return job_type


def define_lazily(reference: str, clients: Clients, options: Defaults) -> AnyJobFunction:
    """Make a job type of `module:function`, which is imported at its first run, if it was not before."""
    lazy = LazyFunction(reference)
    options = {"name": lazy.name, **options}
    function = lazy.imported()
    if function is not None:
        return define(function, clients, options)
    if options.get("executor") == "process":
        raise InvalidSetting(
            f"job type {options['name']!r}: executor='process' imports the function in its process anyway; "
            "put @app.job(executor='process') above it in a module of its own"
        )
    # Whether it is a coroutine function is only known after the import, and so is what runs it.
    known = cast("Defaults", {key: value for key, value in options.items() if key != "executor"})
    job_type = define(lazy.stand_in(), clients, known, LazySignature(lazy))

    def load() -> Handler:
        return define(lazy.find(), clients, options).handler

    job_type.handler = replace(job_type.handler, reference=reference, load=load)
    return job_type


def define(
    function: Callable[..., Any], clients: Clients, options: Defaults, signature: Signature | None = None
) -> AnyJobFunction:
    """Make a job type; raises InvalidSetting now for a job that could never run."""
    check_names("job()", options, Defaults.__annotations__)
    name = _name(function, options)
    executor = _executor(name, function, options.get("executor"))
    memory = _memory(name, executor, options.get("memory"))
    signature = signature or Signature(function)
    check_usable(name, executor, list(signature.resources.values()))
    request = _request(name, options, signature, clients.policies)
    schedule = schedule_in_code(name, options, request, signature, clients.policies)
    handler = Handler(
        job_type=name,
        function=function,
        executor=executor,
        arguments=signature.arguments,
        template=request.new,
        reference=f"{function.__module__}:{function.__qualname__}",
        fingerprint=signature.fingerprint,
        context=signature.context,
        resources=signature.resources,
        memory=memory,
        retry=options.get("retry"),
        actions=read_actions(name, options.get("audit_action")),
        secrets=_secrets(name, options),
        provider=_provider(name, options.get("provider")),
        limit=request.limit,
        schedule=schedule,
        declared=_declared(function, options, request.new, schedule, clients.policies),
    )
    return JobFunction(handler, signature, clients, request)


def register(
    job_type: AnyJobFunction,
    handlers: dict[str, Handler],
    jobs: dict[str, AnyJobFunction],
    policies: Policies,
) -> None:
    """Add a job type; raise InvalidSetting if its name is taken."""
    if job_type.name in BUILT_IN:
        raise InvalidSetting(f"{job_type.name!r} is a job type of Onward's own; give this one another name=")
    known = handlers.get(job_type.name)
    if known is not None:
        raise InvalidSetting(
            f"the job type {job_type.name!r} is defined already, by {known.reference}; "
            "give this one another name="
        )
    _declare(job_type.handler, policies)
    policies.registry.job_types[job_type.name] = job_type.known
    handlers[job_type.name] = job_type.handler
    jobs[job_type.name] = job_type


def _name(function: Any, options: Defaults) -> str:
    """Return the name of the job type; raise InvalidSetting for what can't be one."""
    if not inspect.isfunction(function):
        raise InvalidSetting(f"{function!r:.80} is no function; put @app.job above a def or an async def")
    name = options.get("name", function.__name__)
    if name == _LAMBDA:
        raise InvalidSetting(
            "a lambda has no name that its jobs could have; write it as a def, or name the job type: "
            "@app.job(name='…')"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidSetting(f"job type {name!r}: its function yields; return the result instead")
    return name


def _declare(handler: Handler, policies: Policies) -> None:
    """Add to the policies of an application what a job type declares."""
    name, registry = handler.job_type, policies.registry
    if handler.limit is not None:
        add_limit(registry.limits, handler.limit, name)
    if handler.retry is not None:
        policies.add_retry(name, handler.retry)
    if handler.actions is not None:
        registry.actions[name] = handler.actions
    if handler.secrets is not None:
        registry.secrets[name] = handler.secrets


def _request(name: str, options: Defaults, signature: Signature, policies: Policies) -> Request:
    new = NewJob(
        job_type=name,
        category=options.get("category", DEFAULT_CATEGORY),
        merge=options.get("coalesce"),
        typed=True,
    )
    declared = {key: value for key, value in options.items() if key in _REQUEST_OPTIONS}
    if new.merge is not None:
        declared.setdefault("on_conflict", "coalesce")
    retry = options.get("retry")
    if retry is not None:
        check_kind("retry", retry, RetryPolicy, "give RetryPolicy(kind=…, base=…)")
    key_of = key_maker(name, options, signature)
    request = Request(new, key_of=key_of, limit=read_limit(name, options.get("limit"))).using(declared)
    # Run the checks of an enqueue, so that a wrong default fails at once. Org and actor are not known yet, so
    # the checks of tenancy and contract are off.
    anyone = replace(policies, settings=replace(policies.settings, tenancy="optional", contract="off"))
    if request.burst is not None:
        request.burst.applied(request.new, anyone)
    new_row(request.new if key_of is None else structs.replace(request.new, key="any"), "", anyone)
    return request


_REQUEST_OPTIONS = {
    "queue", "priority", "timeout", "max_attempts", "deadline", "unique", "on_conflict", "reset_from",
    "debounce", "debounce_max", "throttle",
}  # fmt: skip


def _declared(
    function: Callable[..., Any],
    options: Defaults,
    new: NewJob,
    schedule: NewSchedule | None,
    policies: Policies,
) -> DeclaredJobType:
    """Return what the code says of a job type, for people."""
    name = new.job_type
    purpose = options.get("purpose", (inspect.getdoc(function) or "").partition("\n")[0])
    triggers = options.get("triggered_by", ())
    texts = [triggers] if isinstance(triggers, str) else list(triggers)
    for what, text in (("purpose", purpose or None), ("created_by", options.get("created_by"))):
        _check_about(name, what, text)
    for text in texts:
        _check_about(name, "triggered_by", text)
    if not isinstance(options.get("enabled", True), bool):
        raise InvalidSetting(f"job type {name!r}: enabled is {options['enabled']!r:.80}; give True or False")
    if schedule is not None:
        texts.append(f"schedule {schedule.name}: {schedule.timing.in_words()}")
    return DeclaredJobType(
        name=name,
        purpose=purpose or None,
        queue=new.queue or policies.queue_of(name, new.category),
        category=new.category or DEFAULT_CATEGORY,
        created_by=options.get("created_by"),
        triggered_by=tuple(texts),
        enabled=options.get("enabled", True),
    )


def _check_about(name: str, what: str, text: object) -> None:
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InvalidSetting(f"job type {name!r}: {what} is {text!r:.80}; give a text")


def _memory(name: str, executor: Executor, memory: int | None) -> int | None:
    if memory is not None:
        whole_number("memory", memory, 1, _MOST_MEMORY)
        if executor != "process":
            raise InvalidSetting(
                f"job type {name!r}: memory can be limited for a process only; give executor='process'"
            )
    return memory


def _secrets(name: str, options: Defaults) -> Secrets | None:
    policy, reason = options.get("secrets"), options.get("secrets_reason")
    if policy is None and reason is None:
        return None
    return Secrets.of(policy, reason, where=f"job type {name!r}: ")


def _provider(name: str, provider: Provider | None) -> Provider | None:
    if provider is None or (callable(provider) and not inspect.iscoroutinefunction(provider)):
        return provider
    if isinstance(provider, str):
        return check_provider(provider)
    raise InvalidSetting(
        f"job type {name!r}: provider is {provider!r:.80}; give a name, or a plain function of the job"
    )


def _executor(name: str, function: Callable[..., Any], chosen: Executor | None) -> Executor:
    is_async = inspect.iscoroutinefunction(function)
    executor = chosen or ("async" if is_async else "thread")
    if executor not in _EXECUTORS:
        raise InvalidSetting(
            f"job type {name!r}: executor is {executor!r}; give one of {', '.join(_EXECUTORS)}"
        )
    if is_async and executor != "async":
        raise InvalidSetting(
            f"job type {name!r}: an async def can't run by executor={executor!r}; make it a def"
        )
    if not is_async and executor == "async":
        raise InvalidSetting(f"job type {name!r}: executor='async' needs an async def; make it one")
    if executor == "process" and "<" in function.__qualname__:
        raise InvalidSetting(
            f"job type {name!r}: another process can't import {function.__qualname__}; "
            "define it with def at the top of a module"
        )
    return executor
