"""A parent keeps its children running, gives back what the dead ones held, and is missed when it dies."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection

import pytest

from onward.worker.supervisor import Child, Supervisor, worst

pytestmark = pytest.mark.anyio

# Registers under its own pid, then waits to be told to stop.
PATIENT = """
import os, signal
from onward.worker.supervisor import Parent
signal.signal(signal.SIGUSR1, lambda *_: parent.tell_registered("told"))
parent = Parent.find()
assert "ONWARD_PARENT_FD" not in os.environ
parent.watch(lambda number: os._exit(0 if number == signal.SIGTERM else number))
parent.tell_registered(f"worker-{os.getpid()}")
while True:
    signal.pause()
"""


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


class Returned:
    """The worker ids that were given back, and how they died."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.hows: list[str] = []
        self.one = threading.Event()

    def __call__(self, worker_id: str, how: str) -> int:
        self.ids.append(worker_id)
        self.hows.append(how)
        self.one.set()
        return 1


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.01)


async def ready_children(supervisor: Supervisor, count: int, *, besides: Collection[int] = ()) -> list[Child]:
    """Wait until so many children are ready, not counting those with these pids."""

    def found() -> list[Child]:
        children = supervisor.children.values()
        return [child for child in children if child.process.pid not in besides and child.ready.is_set()]

    await until(lambda: len(found()) >= count)
    return found()


async def test_a_child_that_was_killed_is_replaced_and_its_jobs_are_given_back(caplog):
    caplog.set_level("INFO", "onward.supervisor")
    returned = Returned()
    supervisor = Supervisor(program(PATIENT), 2, give_back=returned)
    running = asyncio.create_task(supervisor.run())
    first, second = await ready_children(supervisor, 2)
    os.kill(first.process.pid, signal.SIGKILL)
    assert await asyncio.to_thread(returned.one.wait, 5)
    assert returned.ids == [f"worker-{first.process.pid}"]
    assert returned.hows == ["was ended by SIGKILL"]
    after = await ready_children(supervisor, 2, besides={first.process.pid})
    assert second in after
    supervisor.stop()
    assert await running == 0
    assert returned.ids == [f"worker-{first.process.pid}"], "who ended in order holds nothing"
    told = [record.getMessage() for record in caplog.records]
    assert f"took back what process {first.process.pid} had (jobs: 1)" in told
    assert f"starting another process in place of {first.process.pid}" in told


async def test_a_signal_to_the_parent_reaches_every_child_and_ends_them_all():
    supervisor = Supervisor(program(PATIENT), 2, give_back=Returned())
    running = asyncio.create_task(supervisor.run())
    children = await ready_children(supervisor, 2)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert not any(child.alive for child in children)


async def test_quiet_is_passed_on_also_to_a_child_that_starts_later():
    supervisor = Supervisor(program(PATIENT), 1, give_back=Returned())
    running = asyncio.create_task(supervisor.run())
    [child] = await ready_children(supervisor, 1)
    os.kill(os.getpid(), signal.SIGUSR1)
    await until(lambda: "told" in child.worker_ids)
    child.process.kill()
    [later] = await ready_children(supervisor, 1, besides={child.process.pid})
    await until(lambda: "told" in later.worker_ids)
    supervisor.stop()
    assert await running == 0


async def test_children_that_are_done_are_not_replaced_and_the_gravest_code_counts(tmp_path):
    # Whoever makes the file ends with 6, the other one with 0.
    text = "import os, sys\ntry: os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)\n"
    text += "except OSError: sys.exit(0)\nsys.exit(6)"
    command = [*program(text), str(tmp_path / "first")]
    assert await Supervisor(command, 2, give_back=Returned()).run() == 6


@pytest.mark.parametrize("code", [2, 5])
async def test_a_program_that_never_becomes_ready_is_given_up_with_its_exit_code(tmp_path, caplog, code):
    starts = tmp_path / "starts"
    text = f"import sys\nopen(sys.argv[1], 'a').write('x')\nsys.exit({code})"
    caplog.set_level(logging.ERROR)
    assert await Supervisor([*program(text), str(starts)], 1, give_back=Returned()).run() == code
    assert len(starts.read_text()) == 5
    [line] = [record.getMessage() for record in caplog.records]
    assert line == f"giving up: no process became ready in 5 starts; the last ended with {code}"


async def test_jobs_that_can_not_be_given_back_are_told_and_do_not_stop_the_parent(caplog):
    def fail(worker_id: str, how: str) -> int:
        raise OSError("no route to the database")

    supervisor = Supervisor(program(PATIENT), 1, give_back=fail)
    running = asyncio.create_task(supervisor.run())
    [child] = await ready_children(supervisor, 1)
    child.process.kill()
    await ready_children(supervisor, 1, besides={child.process.pid})
    supervisor.stop()
    assert await running == 0
    assert "wait for the end of its lease: no route to the database" in caplog.text


async def test_the_third_request_ends_a_child_that_does_not_listen():
    deaf = PATIENT.replace("os._exit(", "int(")
    supervisor = Supervisor(program(deaf), 1, give_back=Returned(), kill_after=0.0)
    running = asyncio.create_task(supervisor.run())
    await ready_children(supervisor, 1)
    for _ in range(3):
        supervisor.stop()
    assert await running == 1


def test_children_end_by_themselves_when_their_parent_was_killed(tmp_path):
    missing = PATIENT.replace("os._exit(0 if", "open('missed', 'x').close() or os._exit(0 if")
    parent = f"""
import asyncio
from onward.worker.supervisor import Child
async def main():
    child = await Child.start({program(missing)!r})
    await child.ready.wait()
    print(child.process.pid, flush=True)
    await child.wait()
asyncio.run(main())
"""
    with subprocess.Popen(program(parent), stdout=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        child = int(started.stdout.readline())
        started.kill()
        started.wait()
        # The child held the other end of this pipe: it ends when the child does.
        assert started.stdout.read() == ""
    assert (tmp_path / "missed").exists()
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


async def test_ctrl_c_on_the_terminal_does_not_reach_a_child_beside_the_parent():
    child = await Child.start(program(PATIENT))
    await child.ready.wait()
    assert os.getpgid(child.process.pid) != os.getpgid(os.getpid())
    child.stop(signal.SIGINT)
    assert await child.wait() == signal.SIGINT


@pytest.mark.parametrize(
    ("codes", "gravest"), [([], 0), ([0, 0], 0), ([0, 6], 6), ([143, 6], 143), ([5, 143, 0], 5), ([5, -9], 1)]
)
async def test_the_gravest_exit_code_is_that_of_all(codes, gravest):
    assert worst(codes) == gravest


def test_a_program_without_a_parent_has_none():
    ran = subprocess.run(
        program("from onward.worker.supervisor import Parent; assert Parent.find() is None"), check=False
    )
    assert ran.returncode == 0
