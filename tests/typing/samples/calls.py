"""Right and wrong uses of job types; a type checker reports just the lines that say so."""

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from datetime import timedelta
from typing import Any, assert_type

from onward import Category, Context, Handle, NewJob, Onward, Outcome, RateLimited, RetryPolicy
from onward.results import Enqueued, Job

app = Onward()
POLICY = RetryPolicy(kind="fixed", base=timedelta(seconds=1))


@app.job(category="notification", timeout=30)
async def send_confirmation(ctx: Context, booking_id: int, to: str = "") -> dict[str, bool]:
    return {str(booking_id): bool(to)}


@app.job
def report(day: str, *, pages: int = 1) -> int:
    return pages


@app.job(queue="q:exports")
def nightly(ctx: Context) -> None:
    ctx.check_cancelled()


@app.job
async def no_arguments() -> str:
    return ""


@app.job
def whatever(anything: Any, more: int) -> int:
    return more


# Arguments, without the Context.
send_confirmation.enqueue(booking_id=42, to="ada@example.com")
send_confirmation.enqueue(42, "ada@example.com")
send_confirmation.enqueue(42)
report.enqueue("2026-01-31", pages=2)
nightly.enqueue()
no_arguments.enqueue()
whatever.enqueue(anything=1, more=2)

send_confirmation.enqueue(bookin_id=42)  # error
send_confirmation.enqueue(booking_id="42")  # error
send_confirmation.enqueue()  # error
send_confirmation.enqueue(42, "ada", 3)  # error
report.enqueue("2026-01-31", 2)  # error
report.enqueue(day=31)  # error
nightly.enqueue(1)  # error
no_arguments.enqueue(1)  # error
send_confirmation.build(booking_id="42")  # error
assert_type(send_confirmation.build(1), NewJob)

# Results, without the coroutine.
assert_type(send_confirmation.enqueue(1), Handle[dict[str, bool]])
assert_type(send_confirmation.enqueue(1).result(), dict[str, bool])
assert_type(report.enqueue("d").result(), int)
assert_type(nightly.using(delay="1h").enqueue(), Handle[None])
send_confirmation.enqueue(1).result().upper()  # error
report.enqueue("d").result().upper()  # error


async def asynchronous() -> None:
    handle = await send_confirmation.aenqueue(booking_id=42)
    assert_type(await handle.aresult(), dict[str, bool])
    assert_type(await (await no_arguments.aenqueue()).aresult(timeout="1m"), str)
    await send_confirmation.aenqueue(bookin_id=42)  # error
    await report.aenqueue(31)  # error


# Options never collide with arguments.
send_confirmation.using(delay="10m", priority=1, key="k", unique="7d", actor="user:1", tags=["a"]).enqueue(1)
send_confirmation.using(dely="10m")  # error
send_confirmation.using(priority="high")  # error
send_confirmation.using(on_conflict="explode")  # error
send_confirmation.using(priority=1).enqueue(bookin_id=42)  # error


# A direct call is that of the function.
async def direct(ctx: Context) -> None:
    assert_type(await send_confirmation(ctx, 42), dict[str, bool])
    assert_type(send_confirmation(ctx, 42, to=""), Coroutine[Any, Any, dict[str, bool]]).close()
    assert_type(report("d"), int)
    await send_confirmation(42)  # error
    await send_confirmation(ctx, "42")  # error
    report(31)  # error


@app.job(nam="x")  # error
def misnamed() -> None: ...


# What an application asks of its jobs.
strict = Onward(profile="strict", routes={"mail.*": "q:mail"}, categories=[Category(name="billing")])
Onward(tenancy="sometimes")  # error
Onward(tenency="off")  # error


@app.authorize
def decide(job: Job) -> bool:
    return job.org_id is not None


@strict.authorize
async def decide_later(job: Job) -> None: ...


def undecided(job: Job) -> str:
    return job.id if decide(job) else ""


app.authorize(undecided)  # error

with app.context(org_id="o", actor="user:42"):
    send_confirmation.enqueue(1)
app.context(org="o")  # error


@app.job(key="report_{day}", unique="7d", on_conflict="reset", reset_from={"dead"})
def keyed(day: str) -> None: ...


@app.job(on_conflict="explode")  # error
def exploding() -> None: ...


# Calls to a provider keep their arguments and their result.
def fetch(url: str, pages: int = 1) -> int:
    return pages


async def afetch(url: str) -> bytes:
    return b""


@app.job
async def call(ctx: Context) -> None:
    assert_type(ctx.call_provider(fetch, "https://a", pages=2), int)
    assert_type(ctx.call_provider(fetch, "https://a", retry=POLICY), int)
    assert_type(await ctx.acall_provider(afetch, "https://a"), bytes)
    ctx.call_provider(fetch, 1)  # error
    ctx.call_provider(fetch, "https://a", page=2)  # error
    await ctx.acall_provider(afetch, 1)  # error


# Rules of the application's own.
app.classify(KeyError, "unrecoverable", name="a", hint="h")
app.classify((KeyError, OSError), "retry", name="b", after="1m")
app.classify(status=404, verdict="skip", name="c")
app.classify(KeyError, "dead", name="d")  # error
app.classify(status=404, verdict="retry", name="e", afterwards=1)  # error
app.hint(KeyError, "look", link="https://a")


@app.classify
def judge(error: BaseException) -> RateLimited | None:
    return RateLimited(after="1m")


assert_type(judge(KeyError()), RateLimited | None)


# Around attempts and enqueues, and resources.
class Pool:
    def fetch(self) -> str:
        return ""


@app.around
async def traced(job: Job) -> AsyncGenerator[None, Outcome]:
    outcome = yield
    assert_type(outcome, Outcome)


@app.around
def counted(job: Job) -> Generator[None, Outcome, None]:
    yield


@app.around  # error
def not_around(job: Job) -> int:
    return 1


@app.around_enqueue
def tagged(new: NewJob) -> Generator[NewJob, Enqueued, None]:
    enqueued = yield new
    assert_type(enqueued.created, bool)


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource
def number() -> int:
    return 1


@app.job
async def fetch_pages(
    ctx: Context, name: str, *, pool: Pool = pool.injected, count: int = number.injected
) -> str:
    return pool.fetch()


@app.job
async def wrong(pool: int = pool.injected) -> None: ...  # error


fetch_pages.enqueue("a")
fetch_pages.enqueue()  # error

# Handles by id.
assert_type(send_confirmation.handle("id"), Handle[dict[str, bool]])
assert_type(app.handle("id"), Handle[Any])

# A handler that is imported later.
app.job("billing:charge", queue="q:billing").enqueue(order=1)
app.job("billing:charge", queue=1)  # error
