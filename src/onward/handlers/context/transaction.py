"""A transaction in which a handler writes and its job ends: all of it happens, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from onward.clients.client import AsyncClient
from onward.connections import begin_async
from onward.connections.shielded import unbroken_async
from onward.core.failures.handler_errors import ArtifactMissing
from onward.core.jobs.job import NewJob
from onward.core.policy.contract import artifact_missing, owes_artifact
from onward.core.policy.policies import Policies
from onward.core.work.lease import Leases
from onward.core.work.lifecycle import End, Succeeded
from onward.errors import TransactionNotOpen
from onward.handlers.clients import Clients, confined, trusted
from onward.handlers.handler import Run
from onward.handlers.handles.handle import Handle
from onward.origin import running


class AsyncTransaction:
    """The writes on `connection` are committed together with the end of the job.

    The job ends with `result`.
    """

    def __init__(self, run: Run, clients: Clients, connection: Any, client: AsyncClient) -> None:
        self.connection = connection
        self.client = client
        self.result: Any = None
        self._run = run
        self._clients = clients

    async def enqueue(self, new: NewJob) -> Handle[Any]:
        """Store a child of this job; it exists once the transaction is committed."""
        with running(self._run.job):
            return Handle(await self.client.enqueue(new), self._clients)


@asynccontextmanager
async def transaction_async(
    run: Run, clients: Clients, client: AsyncClient, connection: Any
) -> AsyncIterator[AsyncTransaction]:
    """Begin a transaction on the handler's connection, or on a new one that is closed afterwards."""
    lent = await client.store.connect() if connection is None else None
    try:
        chosen = connection if lent is None else lent
        manager = begin_async(chosen, client.store.database, client.store.prefix)
        run.beginning()
        await manager.__aenter__()
        try:
            bound = trusted(client).within(chosen)
            tx = AsyncTransaction(run, clients, chosen, confined(client.within(chosen), run.job))
            yield tx
        except BaseException as error:
            swallowed = await manager.__aexit__(type(error), error, error.__traceback__)
            run.undone()
            if not swallowed:
                raise
        else:
            await unbroken_async(_commit(run, bound, tx.result, manager))
    finally:
        if lent is not None:
            await lent.close()


async def _commit(
    run: Run, client: AsyncClient, result: Any, manager: AbstractAsyncContextManager[object]
) -> Leases:
    """End the job under its lease and commit; raises LeaseLost after rolling everything back."""
    try:
        await _check_artifact(run, client)
        end = _success(run, client.policies, result)
        leases = await _written(run, client, end)
        leases.require()
    except BaseException as error:
        await manager.__aexit__(type(error), error, error.__traceback__)
        run.undone()
        raise
    run.completing(end)
    await manager.__aexit__(None, None, None)
    run.completed(leases.spent_orgs)
    return leases


async def _written(run: Run, client: AsyncClient, end: End) -> Leases:
    try:
        return await client.worker.write([end], org_id=run.job.org_id)
    except TransactionNotOpen as error:
        raise TransactionNotOpen(
            "the handler has ended its transaction itself, inside ctx.transaction(); leave out commit(), "
            "rollback(), executescript() and `with connection:` there: the block commits, or rolls back"
        ) from error


async def _check_artifact(run: Run, client: AsyncClient) -> None:
    """Raise ArtifactMissing for a job that owes an artifact, and left none in this run or an earlier one."""
    job = run.job
    if not owes_artifact(job, client.policies):
        return
    if not (await confined(client, job).artifacts.list(job_id=job.id, limit=1)).items:
        raise ArtifactMissing(artifact_missing(job))


def _success(run: Run, policies: Policies, result: Any) -> End:
    end = policies.end_of(run.job, Succeeded(result), 0.0, run.usage())
    return end if run.last_report is None else replace(end, progress=run.last_report)
