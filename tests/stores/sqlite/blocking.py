"""Wait until somebody waits for a lock."""

import asyncio

import psycopg

from tests.worker.waiting import SOON

BLOCKED = "SELECT pid FROM pg_locks WHERE NOT granted AND %s = ANY (pg_blocking_pids(pid))"


async def waiting(lock: psycopg.AsyncConnection) -> list[int]:
    """Wait until somebody waits for what this connection has locked, and tell who."""
    async with asyncio.timeout(SOON):
        while True:
            cursor = await lock.execute(BLOCKED, (lock.info.backend_pid,))
            if found := [pid for (pid,) in await cursor.fetchall()]:
                return found
            await asyncio.sleep(0.01)
