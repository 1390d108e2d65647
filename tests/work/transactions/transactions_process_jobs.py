"""Job types in child processes that end in transactions of their own."""

from __future__ import annotations

from typing import Literal

from onward import Context, Onward, Retry
from tests.work.transactions.cutting import cut, die, nothing

app = Onward()
process_job = app.job(executor="process")


@app.job
async def follow(n: int) -> None: ...


@process_job
def book(ctx: Context, insert: str, n: int) -> None:
    ctx.meter("pages", 2, cost_micros=3)
    with ctx.transaction() as tx:
        tx.connection.execute(insert, (n,))
        tx.enqueue(follow.build(n))
        tx.result = {"booked": n, "of": {"a set"}}
        if ctx.job.attempt == 1:
            raise Retry("again", after=0)


@process_job
def book_and_die(
    ctx: Context, url: str, insert: str, n: int, when: Literal["before", "after", "later"]
) -> None:
    act = die if ctx.job.attempt == 1 else nothing
    before = act if when == "before" else nothing
    after = act if when == "after" else nothing
    with cut(url, before=before, after=after) as connection:
        with ctx.transaction(connection) as tx:
            connection.execute(insert, (n,))
            tx.result = n
        act()
