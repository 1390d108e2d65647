"""The parent's side of measured processes: start them, wait for their reports, count what is left to do."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

__all__ = ["BARE", "ONWARD", "Child", "Command", "Drain", "ask", "drain", "percentile", "working"]

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0


@dataclass(frozen=True)
class Command:
    """How a subject is called, and with which environment."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path = ROOT

    def start(self, *arguments: object) -> Child:
        return Child(self, [str(argument) for argument in arguments])


def ONWARD(url: str, **settings: object) -> Command:  # noqa: N802
    """Call Onward itself; settings go to its module as ONWARD_BENCH_…."""
    own = {f"ONWARD_BENCH_{name.upper()}": str(value) for name, value in settings.items()}
    return Command((sys.executable, "-m", "bench.subject"), {"ONWARD_URL": url, **own})


def BARE(url: str) -> Command:  # noqa: N802
    """Call the least that a queue does for a job."""
    return Command((sys.executable, "-m", "bench.bare"), {"BARE_URL": url})


class Child:
    """A measured process; what it says is read by a thread, so that it never waits for us."""

    def __init__(self, command: Command, arguments: list[str]) -> None:
        self.process = subprocess.Popen(
            [*command.words, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **command.environment},
            cwd=command.folder,
            text=True,
        )
        self.said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.last: dict[str, Any] = {"jobs": 0}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            # A peer may print words of its own.
            if line.startswith("{"):
                self.said.put(json.loads(line))
        self.said.put({"gone": True})

    def tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self, key: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait until it says something with this key; keeps the newest report of jobs."""
        deadline = time.monotonic() + seconds
        while True:
            said = self.said.get(timeout=max(0.0, deadline - time.monotonic()))
            if "jobs" in said:
                self.last = said
            if "gone" in said:
                raise RuntimeError(f"{self.process.args!r} ended with {self.process.wait()}")
            if key in said:
                return said

    def until(self, jobs: int, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait until it has run so many jobs; gives that report."""
        deadline = time.monotonic() + seconds
        while self.last["jobs"] < jobs:
            self.hear("jobs", deadline - time.monotonic())
        return self.last

    def stop(self) -> dict[str, Any]:
        self.tell("stop")
        return self.hear("stopped")


def ask(command: Command, verb: str, *arguments: object) -> dict[str, Any]:
    """Run a verb to its end; gives its last words."""
    with command.start(verb, *arguments) as child:
        said = child.hear("done" if verb == "setup" else "seconds")
        child.process.wait(PATIENCE)
        return said


def working(command: Command, *arguments: object) -> Child:
    """Start a worker and wait until it is about to work; `tell("go")` makes it."""
    child = command.start("work", *arguments)
    child.hear("ready")
    return child


@dataclass(frozen=True)
class Drain:
    """Jobs a second from the first handler's start until the last result is stored; CPU of the workers."""

    rate: float
    cpu_micros: float
    shares: list[int]


def drain(
    command: Command, jobs: int, left: Callable[[], int], processes: int = 1, *arguments: object
) -> Drain:
    """Have all jobs worked off; `left` counts those that the database does not have as done."""
    with ExitStack() as stack:
        children = [stack.enter_context(working(command, "drain", *arguments)) for _ in range(processes)]
        for child in children:
            child.tell("go")
        wait_for(children, jobs)
        while left():
            time.sleep(0.002)
        end = time.monotonic_ns() // 1000
        said = [child.stop() for child in children]
    ran = sum(one["jobs"] for one in said)
    if ran != jobs:
        raise RuntimeError(f"{command.words}: {jobs} jobs were enqueued, handlers ran {ran} times")
    first = min(one["first"] for one in said if one["jobs"])
    spent = sum(one["cpu"] for one in said)
    return Drain(jobs / (end - first) * 1e6, spent * 1e6 / jobs, [one["jobs"] for one in said])


def wait_for(children: list[Child], jobs: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum(child.last["jobs"] for child in children) < jobs:
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {[child.last['jobs'] for child in children]} of {jobs} jobs ran")
        for child in children:
            # Nobody is waited for by itself: the more there are, the later the last would be heard.
            with suppress(queue.Empty):
                child.hear("jobs", 0.0)
        time.sleep(0.002)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
