"""Handlers in child processes: what limits them, what ends them, and that nothing but their job is lost."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward import Cancelled
from onward.core.failures.classify import describe
from onward.worker.children.process_pool import ProcessDied, ProcessPool
from onward.worker.children.protocol import ChildError
from tests.worker.children import child_jobs as jobs
from tests.worker.children.child_jobs import MB, attempt, run

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
async def pool(anyio_backend):
    """A pool whose children come to harm; that no test notices what another did is what it is for."""
    pool = ProcessPool(2)
    yield pool
    await pool.close()


@pytest.fixture
async def fresh_pool(anyio_backend):
    """A pool without a child."""
    pool = ProcessPool(1)
    yield pool
    await pool.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe: who opens one end waits for who opens the other."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


async def first_line(pipe: Path) -> tuple[str, Any]:
    """Wait for a line, and give the stream, which ends when nobody holds the pipe any more."""
    stream = await asyncio.to_thread(pipe.open)
    return (await asyncio.to_thread(stream.readline)).strip(), stream


async def nobody_holds(stream: Any) -> bool:
    async with asyncio.timeout(30):
        with stream:
            return not await asyncio.to_thread(stream.read)


# Limits


async def test_memory_is_limited_to_what_the_job_may_add(pool):  # F08
    assert await run(pool, jobs.allocate_little, megabytes=40) == 40 * MB
    # The limit was the other job's.
    assert await run(pool, jobs.allocate, megabytes=256) == 256 * MB
    with pytest.raises(ChildError, match="MemoryError"):
        await run(pool, jobs.allocate_little, megabytes=80)
    assert await run(pool, jobs.allocate_little, megabytes=40) == 40 * MB


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_job_over_its_time_is_ended_for_certain(pool, pipe, stubborn):
    await run(pool, jobs.process_id)  # so that the time is spent in the handler
    opening = asyncio.ensure_future(first_line(pipe))
    with pytest.raises(TimeoutError, match=r"^ran longer than 1.5 s$"):
        await run(pool, jobs.hold, limit=1.5, path=str(pipe), stubborn=stubborn)
    # Where the handler did not come as far as the pipe, this ends the wait for it.
    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    process_id, stream = await opening
    assert int(process_id) > 0
    assert await nobody_holds(stream)


async def test_what_the_handler_started_ends_with_it(pool, pipe):
    one = attempt(path=str(pipe))
    running = asyncio.ensure_future(pool.run(jobs.hold_by_another.handler, one, timeout=60))
    _, stream = await first_line(pipe)
    pool.cancel(one.job.id)
    with pytest.raises(Cancelled):
        await running
    assert await nobody_holds(stream)


async def test_a_cancelled_job_is_ended_with_its_reason(pool, pipe):
    one = attempt(path=str(pipe))
    running = asyncio.ensure_future(pool.run(jobs.hold.handler, one, timeout=60))
    _, stream = await first_line(pipe)
    one.cancel_reason = "not wanted"
    pool.cancel(one.job.id)
    with pytest.raises(Cancelled) as caught:
        await running
    assert caught.value.reason == "not wanted"
    assert await nobody_holds(stream)


async def test_a_job_can_be_cancelled_before_a_process_is_free(fresh_pool, pipe):
    first = asyncio.ensure_future(run(fresh_pool, jobs.finish_with, path=str(pipe), text="first"))
    waiting = attempt()
    second = asyncio.ensure_future(fresh_pool.run(jobs.process_id.handler, waiting, timeout=60))
    await asyncio.sleep(0)
    fresh_pool.cancel(waiting.job.id)
    with pytest.raises(Cancelled):
        await second
    await asyncio.to_thread(pipe.write_text, "go on")
    assert await first == "first"


async def test_a_cancelled_task_ends_the_process_of_its_job(pool, pipe):
    running = asyncio.ensure_future(run(pool, jobs.hold, path=str(pipe)))
    _, stream = await first_line(pipe)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await nobody_holds(stream)


async def test_two_jobs_run_at_the_same_time(pool, pipe):
    both = [run(pool, jobs.meet, path=str(pipe), first=first) for first in (True, False)]
    assert await asyncio.gather(*both) == ["met", "met"]


# Deaths


@pytest.mark.parametrize(
    ("job_type", "payload", "epitaph"),
    [
        (jobs.kill, {"number": signal.SIGKILL}, "the process was killed by SIGKILL"),
        (jobs.leave, {"code": 3}, "the process ended with exit code 3 before the handler did"),
    ],
)
async def test_a_process_that_dies_fails_its_job_only(pool, pipe, job_type, payload, epitaph):  # F07 F08
    other = asyncio.ensure_future(run(pool, jobs.finish_with, path=str(pipe), text="untouched"))
    with pytest.raises(ProcessDied) as caught:
        await run(pool, job_type, **payload)
    assert describe(caught.value).error_class == "ProcessDied"
    assert str(caught.value) == epitaph
    assert await run(pool, jobs.process_id) > 0
    await asyncio.to_thread(pipe.write_text, "go on")
    assert await other == "untouched"


async def test_a_death_is_seen_though_a_fork_holds_the_line_open(pool, pipe):  # F13
    with pytest.raises(ProcessDied, match="exit code 3"):
        await run(pool, jobs.hold_by_fork, path=str(pipe))
    await asyncio.to_thread(pipe.write_text, "end")


@pytest.mark.parametrize("length", [4, 2**32 - 1])
async def test_a_child_that_talks_nonsense_is_ended(pool, length):
    before = await run(pool, jobs.process_id)
    with pytest.raises(ProcessDied, match="no answer"):
        await run(pool, jobs.babble, length=length)
    assert await run(pool, jobs.process_id) != before


async def test_a_child_that_died_idle_is_replaced(fresh_pool):
    first = await run(fresh_pool, jobs.process_id)
    [child] = fresh_pool.children
    os.kill(first, signal.SIGKILL)
    await asyncio.wait({child.exited})
    assert await run(fresh_pool, jobs.process_id) != first


async def test_a_child_that_is_idle_for_long_is_ended(fresh_pool):
    fresh_pool.idle_seconds = 0.0
    first = await run(fresh_pool, jobs.process_id)
    for child in list(fresh_pool.children):
        await asyncio.wait({child.exited})
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert await run(fresh_pool, jobs.process_id) != first


async def test_a_closed_pool_lets_jobs_finish_in_time_and_ends_the_rest(pipe, tmp_path):
    other = tmp_path / "other"
    os.mkfifo(other)
    pool = ProcessPool(2)
    held = asyncio.ensure_future(run(pool, jobs.hold, path=str(pipe)))
    _, stream = await first_line(pipe)
    finishing = asyncio.ensure_future(run(pool, jobs.finish_with, path=str(other), text="finished"))
    with await asyncio.to_thread(other.open, "w"):
        closing = asyncio.ensure_future(pool.close(grace=0.5))
        await asyncio.sleep(0)
    await closing
    assert await finishing == "finished"
    with pytest.raises(asyncio.CancelledError):
        await held
    assert await nobody_holds(stream)
    with pytest.raises(RuntimeError, match="closed"):
        await run(pool, jobs.process_id)


# Scripts


def script(path: Path, text: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a script, which need not be named like a module; `-m name` starts it as one."""
    module = path.name.removeprefix("-m ")
    command = [str(path)] if module == path.name else ["-m", module]
    (path if module == path.name else path.with_name(f"{module}.py")).write_text(text)
    return subprocess.Popen(
        [sys.executable, "-W", "always::ResourceWarning", *command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


KILLED = """
import asyncio, sys
from onward.worker.children.process_pool import ProcessPool
from tests.worker.children import child_jobs as jobs
asyncio.run(asyncio.wait_for(jobs.run(ProcessPool(1), jobs.hold, path=sys.argv[1]), 60))
"""


async def test_children_do_not_outlive_their_parent(tmp_path, pipe):
    with script(tmp_path / "killed.py", KILLED, pipe) as parent:
        _, stream = await first_line(pipe)
        parent.kill()
        assert await nobody_holds(stream)
        assert parent.communicate(timeout=30)[1] == ""


MAIN = """
import asyncio, sys
from dataclasses import dataclass
from onward import Onward
from onward.worker.children.process_pool import ProcessPool

app = Onward()

@dataclass
class Order:
    price: int

@app.job(executor="process")
def total(orders: list[Order]) -> dict:
    print("printed", flush=True)
    return {"total": sum(order.price for order in orders), "name": __name__, "argv": sys.argv[1:]}

async def main():
    from tests.worker.children.child_jobs import run
    pool = ProcessPool(1)
    print(await run(pool, total, orders=[{"price": 1}, {"price": 2}]))
    await pool.close()

GUARD
    asyncio.run(main())
"""


@pytest.mark.parametrize(("started", "name"), [("script", "__mp_main__"), ("-m script", "script")])
async def test_a_job_type_may_be_defined_in_the_script_itself(tmp_path, started, name):
    text = MAIN.replace("GUARD", 'if __name__ == "__main__":')
    with script(tmp_path / started, text, "--option", cwd=tmp_path) as parent:
        out, err = parent.communicate(timeout=60)
    told = {"total": 3, "name": name, "argv": ["--option"]}
    assert (out.splitlines(), err) == (["printed", str(told)], "")


async def test_a_script_without_a_guard_is_told_so(tmp_path):
    with script(tmp_path / "script.py", MAIN.replace("GUARD", "if True:")) as parent:
        _, err = parent.communicate(timeout=60)
    assert parent.returncode == 1
    assert 'put that under: if __name__ == "__main__":' in err.splitlines()[-1]


QUIET = """
import asyncio, os, signal, sys
from onward import Cancelled
from onward.worker.children.process_pool import ProcessDied, ProcessPool
from tests.worker.children import child_jobs as jobs

def wait_for(pipe):
    with open(pipe) as stream:
        stream.readline()

async def main(pipe):
    pool = ProcessPool(2)
    await jobs.run(pool, jobs.say, text="said")
    one = jobs.attempt(path=pipe)
    held = asyncio.ensure_future(pool.run(jobs.hold.handler, one, timeout=60))
    await asyncio.to_thread(wait_for, pipe)
    pool.cancel(one.job.id)
    for job in (held, jobs.run(pool, jobs.hold, path=pipe, limit=0.1), jobs.run(pool, jobs.leave, code=3)):
        try:
            await job
        except (Cancelled, TimeoutError, ProcessDied) as error:
            print(type(error).__name__)
    await pool.close()

asyncio.run(main(sys.argv[1]))
"""


async def test_what_a_handler_prints_is_shown_and_nothing_else(tmp_path, pipe):
    with script(tmp_path / "quiet.py", QUIET, pipe) as parent:
        out, err = parent.communicate(timeout=60)
    assert (out.split(), err) == (["said", "Cancelled", "TimeoutError", "ProcessDied"], "")
