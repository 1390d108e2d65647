"""A process that brings up workers, one after the other, and has them killed around their effects.

It is warm and holds neither connections nor threads, so a worker is a fork of it: a life costs a few
hundredths of a second instead of the start of an interpreter. Asked by lines of JSON on stdin; see `Asked`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import onward.stores.postgres.postgres_store
import onward.stores.postgres.postgres_wakeups
import onward.worker.worker  # noqa: F401 - imported late, by what a worker is
from onward import Context, JobType, Onward, RetryPolicy
from onward.sql.catalogue import catalogue
from tests.work.effects.effect_provider import charge
from tests.work.transactions.books import Books
from tests.work.transactions.cutting import cut, die

__all__ = ["POINTS", "Asked", "jobs_of"]

POINTS = ("charging", "charged", "recorded", "writing", "committing", "committed", "returning")
AT_ONCE = RetryPolicy(kind="fixed", base=timedelta(), jitter=False, max_attempts=1000)


@dataclass
class Asked:
    """How a worker is to die: when it comes to a point in its handlers, or so long after its first job began.

    Else it works until nothing is left.
    """

    point: str | None = None
    after: float | None = None


def jobs_of(app: Onward, provider: str, asked: Asked, began: int | None = None) -> list[JobType[..., Any]]:
    """Define a job with an effect outside, an effect in the application's own table, and a follow-up job."""
    books = Books(app)

    def at(point: str) -> None:
        if asked.point == point:
            die()

    def do(key: str) -> int:
        at("charging")
        number = charge(provider, key)
        at("charged")
        return number

    def begin() -> None:
        if began is not None:
            os.write(began, b"!")

    @app.job(retry=AT_ONCE)
    def follow(ctx: Context, n: int) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (-n,))

    @app.job(retry=AT_ONCE)
    def book(ctx: Context, n: int) -> None:
        begin()
        number = ctx.once("charge", do)
        at("recorded")
        acts = {"before": partial(at, "committing"), "after": partial(at, "committed")}
        with cut(books.url, **acts) as connection, ctx.transaction(connection) as tx:
            connection.execute(books.insert, (n,))
            tx.enqueue(follow.build(n))
            tx.result = number
            at("writing")
        at("returning")

    @app.job(retry=AT_ONCE)
    async def book_awaited(ctx: Context, n: int) -> None:
        begin()
        number = await ctx.aonce("charge", lambda key: asyncio.to_thread(do, key))
        at("recorded")
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (n,))
            await tx.enqueue(follow.build(n))
            tx.result = number
            at("writing")
        at("returning")

    return [book, book_awaited]


def live(url: str, schema: str, provider: str, asked: Asked, told: int) -> NoReturn:
    """Be a worker until the end."""
    app = Onward(url, schema=schema)
    jobs_of(app, provider, asked, told)

    def registered(worker_id: str) -> None:
        os.write(told, f"{worker_id}\n".encode())

    try:
        asyncio.run(app.worker(concurrency=4, drain=True, on_registered=registered).run())
    finally:
        os._exit(0)


def bring_up(url: str, schema: str, provider: str, asked: Asked) -> dict[str, object]:
    """Fork a worker and see it die; tells who it was."""
    read, write = os.pipe()
    worker = os.fork()
    if worker == 0:
        live(url, schema, provider, asked, write)
    os.close(write)
    with os.fdopen(read) as told:
        worker_id = told.readline().strip()
        if asked.after is not None and told.read(1):
            time.sleep(asked.after)
            os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
    return {"worker": worker_id, "killed": os.WIFSIGNALED(status)}


def warm_up(url: str, schema: str) -> None:
    """Do what every worker would have to do again: read the statements."""
    if url.startswith("sqlite"):
        catalogue("sqlite", "question", f"{schema}_")
    else:
        catalogue("postgres", "dollar", f"{schema}.")


def main() -> None:
    url, schema, provider = sys.argv[1:]
    warm_up(url, schema)
    for line in sys.stdin:
        print(json.dumps(bring_up(url, schema, provider, Asked(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
