"""The clients of one database: new ones that the caller closes, and shared ones that open on first use."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from onward.clients.bound import Bound
from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.failures.handler_errors import Unrecoverable
from onward.core.jobs.job import Job
from onward.core.jobs.scope import ALL, Scope
from onward.core.policy.application import schema_of
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.records.artifact import Artifact
from onward.errors import InvalidSetting
from onward.logs import get_logger, hide_also
from onward.stores import chosen_name, open_async_store, open_store
from onward.stores.urls import overruled_url, shown_url

log = get_logger("onward")

ClientT = TypeVar("ClientT", Client, AsyncClient)

_importing = False


@contextmanager
def importing() -> Iterator[None]:
    """Mark that a child process imports the script that its parent runs."""
    global _importing  # noqa: PLW0603 - one process, one script
    _importing = True
    try:
        yield
    finally:
        _importing = False


def check_not_importing() -> None:
    """Raise Unrecoverable while a child process imports the script of its parent.

    The child only looks for a handler there. Enqueueing or starting a worker would repeat in every child.
    """
    if _importing:
        raise Unrecoverable(
            "the script enqueues jobs or starts a worker when it is imported, and its child processes have "
            'to import it; put that under: if __name__ == "__main__":'
        )


def module_of_caller() -> str:
    """Return the module that calls the caller of this function; a script is known by the name of its file."""
    module = str(sys._getframe(2).f_globals.get("__name__"))  # noqa: SLF001 - logging finds its caller so, too
    if module != "__main__":
        return module
    main = sys.modules[module]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name.removesuffix(".__main__") if spec else Path(file).stem if file else module


class Clients:
    """The database of an application; connects when the first client is used.

    `application` is the name of the application, or else the module that makes it. `in_code` marks the URL as
    one that the application's code names.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        module: str | None = None,
        schema: str | None = None,
        policies: Policies = DEFAULT_POLICIES,
        row_security: bool = False,
        in_code: bool = False,
    ) -> None:
        if name is not None and schema is not None:
            raise InvalidSetting(f"name={name!r:.80} chooses the schema of the tables; leave schema= out")
        if name is None and schema is None:
            name = chosen_name()
        self.url = url
        self.schema = schema_of(name) if schema is None else schema
        self.application = name or module
        self._in_code = in_code and url is not None
        self.policies = policies
        self.row_security = row_security
        hide_also(policies.settings.redact)
        self._opening = threading.Lock()
        self._sync: Client | None = None
        self._process = os.getpid()
        self._current: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = WeakKeyDictionary()

    def use(self, url: str | None) -> None:
        """Use another database than the code of the app names: the one that the caller was told to use."""
        self.url = url
        self._in_code = False

    def open(self, *, for_worker: bool = False) -> Client:
        """Return a new client, for the caller to close.

        That of a worker plans each statement once, and is not confined by the code around.
        """
        check_not_importing()
        self._warn_of_overruled_url()
        store = open_store(self.url, schema=self.schema, steady=for_worker, row_security=self.row_security)
        return Client(
            store=store, policies=self.policies, bound=Bound(role="onward" if for_worker else "caller")
        )

    def open_async(self, *, for_worker: bool = False) -> AsyncClient:
        """Return a new async client, for the caller to close.

        That of a worker plans each statement once, and is not confined by the code around.
        """
        check_not_importing()
        self._warn_of_overruled_url()
        security = self.row_security
        store = open_async_store(self.url, schema=self.schema, steady=for_worker, row_security=security)
        return AsyncClient(
            store=store, policies=self.policies, bound=Bound(role="onward" if for_worker else "caller")
        )

    @property
    def sync(self) -> Client:
        """The client that all threads share; after `close()` a new one is opened."""
        client = self._sync
        if client is None or self._process != os.getpid():
            client = self._open_sync()
        return client

    def current(self) -> AsyncClient:
        """Return the client of the running event loop; after `aclose()` a new one is opened."""
        loop = asyncio.get_running_loop()
        client = self._current.get(loop)
        if client is None:
            with self._opening:
                client = self._current[loop] = self.open_async()
        return client

    def close(self) -> None:
        """Close the shared sync client."""
        with self._opening:
            client, self._sync = self._sync, None
        if client is not None and self._process == os.getpid():
            client.close()

    async def aclose(self) -> None:
        """Close the client of the running event loop."""
        with self._opening:
            client = self._current.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _warn_of_overruled_url(self) -> None:
        """Log once that the URL in the code is used, and not ONWARD_URL, which names another database."""
        if self._in_code and self.url and (outside := overruled_url(self.url)):
            self._in_code = False
            log.warning(
                "the database is %s, as the code says, and not %s, as ONWARD_URL says; "
                "make the app by Onward() without a URL, or unset ONWARD_URL",
                shown_url(self.url),
                shown_url(outside),
            )

    def _open_sync(self) -> Client:
        with self._opening:
            # A client that was opened before a fork belongs to the parent process, which still uses it.
            if self._sync is None or self._process != os.getpid():
                self._sync = self.open()
                self._process = os.getpid()
            return self._sync


def confined(client: ClientT, owned: Job | Artifact) -> ClientT:
    """Return the client confined to the org and project of a job or an artifact, if it has any."""
    scope = scope_of(owned, client.policies)
    client = client if scope.org_id is None else client.for_org(scope.org_id)
    return client if scope.project_id is None else client.for_project(scope.project_id)


def trusted(client: ClientT, job: Job | None = None) -> ClientT:
    """Return a client by which Onward itself acts for a running job; the caller has checked what it may do.

    It is confined as its job is, or not at all.
    """
    scope = ALL if job is None else scope_of(job, client.policies)
    bound = Bound(org_id=scope.org_id, project_id=scope.project_id, role="onward")
    return type(client)(store=client.store, policies=client.policies, bound=bound)


def scope_of(owned: Job | Artifact, policies: Policies) -> Scope:
    """Return the org and the project of a job or an artifact; no org if tenancy is off."""
    return Scope(None if policies.settings.tenancy == "off" else owned.org_id, owned.project_id)
