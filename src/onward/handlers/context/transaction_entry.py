"""How a handler opens the transaction that ends its job: by `with` or by `async with`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.errors import TransactionOpen
from onward.handlers.clients import Clients
from onward.handlers.context.event_loop import check_may_block
from onward.handlers.context.sync.transaction import Transaction, transaction
from onward.handlers.context.transaction import AsyncTransaction, transaction_async
from onward.handlers.handler import Run


class Opening:
    """The transaction of one attempt: before it begins, while it is open, or after its commit."""

    completed: bool

    def __init__(self, run: Run, clients: Clients, connection: Any, before: Opening | None) -> None:
        if before is not None and before.completed:
            raise TransactionOpen(
                f"job {run.job.id} has ended with its transaction; a job has one: write all of it there"
            )
        if before is not None and (before.sync or before.current):
            raise TransactionOpen("ctx.transaction() is open already; use the tx that it gave")
        self._run = run
        self._clients = clients
        self._connection = connection
        self._manager: AbstractContextManager[Transaction] | None = None
        self._async_manager: AbstractAsyncContextManager[AsyncTransaction] | None = None
        self.sync: Client | None = None
        self.current: AsyncClient | None = None
        self.completed = False

    if not TYPE_CHECKING:  # type checkers report a missing attribute themselves

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError with advice, for code that takes this for the transaction itself."""
            raise AttributeError(
                f"ctx.transaction() has no {name!r} before it is begun; write "
                "`with ctx.transaction() as tx:`, or `async with`, and use that tx"
            )

    def __enter__(self) -> Transaction:
        """Begin the transaction in a sync handler."""
        if self._connection is None:
            # On SQLite it could wait for another handler's transaction, which waits for this event loop.
            check_may_block("`with ctx.transaction()`", "`async with ctx.transaction()`")
        self._manager = transaction(self._run, self._clients, self._clients.sync, self._connection)
        tx = self._manager.__enter__()
        self.sync = tx.client
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the job and commit, or roll back."""
        self.sync = None
        assert self._manager is not None  # noqa: S101 - it was entered
        swallowed = self._manager.__exit__(kind, error, trace)
        self.completed = error is None
        return swallowed

    async def __aenter__(self) -> AsyncTransaction:
        """Begin the transaction in an async handler."""
        client = self._clients.current()
        self._async_manager = transaction_async(self._run, self._clients, client, self._connection)
        tx = await self._async_manager.__aenter__()
        self.current = tx.client
        return tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the job and commit, or roll back."""
        self.current = None
        assert self._async_manager is not None  # noqa: S101 - it was entered
        swallowed = await self._async_manager.__aexit__(kind, error, trace)
        self.completed = error is None
        return swallowed
