"""Job types that run in child processes, and what is needed to run one without a database."""

import datetime as dt
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from onward import (
    Cancelled,
    Context,
    JobState,
    NewJob,
    Onward,
    RateLimited,
    Retry,
    Skip,
    Snooze,
    Unrecoverable,
)
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.errors import InvalidJob
from onward.results import Job
from onward.worker.children.process_pool import ProcessPool

MB = 1024 * 1024
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)

app = Onward()
process_job = app.job(executor="process")


@dataclass
class Attempt:
    """A run as the pool sees it."""

    job: Job
    cancel_reason: str | None = None
    used: list[Usage] = field(default_factory=list)
    artifacts: int = 0

    def meter(self, used: Usage) -> None:
        self.used.append(used)

    def report(self, report: Report) -> None:
        raise NotImplementedError

    def completing(self, end: End) -> None:
        raise NotImplementedError

    def completed(self, spent: frozenset[str]) -> None:
        raise NotImplementedError


@dataclass
class Numbers:
    """Hands out ids."""

    last: int = field(default=0)

    def next_id(self) -> str:
        self.last += 1
        return f"019b7c2e-9f00-7000-8000-{self.last:012x}"


numbers = Numbers()


def attempt(job_type: str = "some", **payload: Any) -> Attempt:
    """A running job with that payload."""
    values: dict[str, Any] = dict.fromkeys(Job.__struct_fields__) | {
        "id": numbers.next_id(),
        "job_type": job_type,
        "queue": "q:default",
        "category": "default",
        "state": JobState.RUNNING,
        "priority": 5,
        "run_at": NOW,
        "attempt": 1,
        "max_attempts": 3,
        "lease": 1,
        "payload": payload,
        "cost_micros": 0,
        "rerun_requested": False,
        "waits": 0,
        "crashes": 0,
        "created_at": NOW,
    }
    return Attempt(Job(**values))


async def run(pool: ProcessPool, job_type: Any, *, limit: float | None = 60, **payload: Any) -> Any:
    """Run a job of that type in the pool."""
    return await pool.run(job_type.handler, attempt(job_type.name, **payload), timeout=limit)


@process_job
def process_id() -> int:
    return os.getpid()


@process_job
def typed(number: UUID, day: dt.date, words: list[str], times: int = 2) -> dict[str, Any]:
    return {"number": number.hex, "year": day.year, "words": words * times}


@process_job
def about_job(ctx: Context, job_id: str) -> Any:
    assert ctx.job.id == job_id
    assert not ctx.cancelled
    ctx.sleep(0)
    return msgspec.to_builtins(ctx.job)


@process_job
def enqueue_child(ctx: Context) -> str:
    return ctx.enqueue(NewJob(job_type="follow_up")).id


class HandlersOwn(Exception):
    """An exception that the parent can't know."""


class HandlersFatal(Unrecoverable):
    """A class of the handler's own, derived from ours."""


ENDS = {
    "skip": Skip("nothing to do"),
    "snooze": Snooze(dt.timedelta(seconds=90)),
    "snooze by text": Snooze("10m"),
    "limited": RateLimited("2s", error=HandlersOwn("slow down"), counted=True),
    "cancelled": Cancelled("gave way"),
    "retry": Retry("again", after=7),
    "fatal": HandlersFatal("key refused", hint="renew it", link="https://example.com/keys"),
    "invalid": InvalidJob("priority is 0"),
    "own": HandlersOwn("no é \ud800 more"),
    "exit": SystemExit(4),
}


@process_job
def end(how: str) -> None:
    raise ENDS[how]


@process_job
def give_back(how: str) -> Any:
    return ENDS[how]


def plain() -> str:
    return "plain"


plain_type = process_job(plain)


@process_job
def answer(how: str) -> Any:
    return {
        "plain": {"a": [1, 2.5, None, True, "é"]},
        "typed": (UUID(int=1), dt.date(2026, 1, 2), {"set"}),
        "object": {"deep": [object()]},
        "large": "x" * (5 * MB),
    }[how]


@process_job
def allocate(megabytes: int) -> int:
    return len(bytearray(megabytes * MB))


@app.job(executor="process", memory=64 * MB)
def allocate_little(megabytes: int) -> int:
    return len(bytearray(megabytes * MB))


@process_job
def kill(number: int) -> str:
    os.kill(os.getpid(), number)
    return "alive"


@process_job
def leave(code: int) -> None:
    os._exit(code)


@process_job
def hold(path: str, stubborn: bool = False) -> None:
    """Tell the process id, and keep the pipe open for as long as this process lives."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pipe = Path(path).open("w")  # noqa: SIM115
    print(os.getpid(), file=pipe, flush=True)
    while True:
        signal.pause()


@process_job
def hold_by_another(path: str) -> None:
    """Have a program keep the pipe open."""
    with Path(path).open("w") as pipe:
        program = "import time; print('open', flush=True); time.sleep(600)"
        subprocess.run([sys.executable, "-c", program], stdout=pipe, check=False)


@process_job
def hold_by_fork(path: str) -> None:
    """Die, and leave behind a process that holds all that this one had open."""
    if os.fork():
        os._exit(3)
    Path(path).read_text()
    os._exit(0)


@process_job
def finish_with(path: str, text: str) -> str:
    Path(path).read_text()
    return text


@process_job
def meet(path: str, first: bool) -> str:
    """Return only when another process is here at the same time."""
    if first:
        return Path(path).read_text()
    Path(path).write_text("met")
    return "met"


@process_job
def own_group_and_descriptor(descriptor: int) -> list[bool]:
    try:
        os.fstat(descriptor)
    except OSError:
        return [os.getpgid(0) == os.getpid(), False]
    return [os.getpgid(0) == os.getpid(), True]


@process_job
def babble(length: int) -> None:
    """Write to the parent past all that is agreed."""
    for descriptor in range(3, 1024):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, length.to_bytes(4, "big") + b"oops")
    signal.pause()


@process_job
def say(text: str) -> None:
    print(text)
