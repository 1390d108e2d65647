"""The child's side of a measured process: one verb, JSON lines out, `go` and `stop` in.

Only the standard library and no import of ours: peers run it in an environment of their own. Instants are
microseconds of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Spread", "Subject", "Tally", "Timer", "clock", "say", "serve", "work"]

REPORT_SECONDS = 0.02


def clock() -> int:
    return time.monotonic_ns() // 1000


def say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


class Tally:
    """What a worker's handlers tell: how many ran, since when, and how long each had waited."""

    def __init__(self) -> None:
        self.jobs = 0
        self.first = 0
        self.waits: list[int] = []

    def ran(self) -> None:
        if not self.jobs:
            self.first = clock()
        self.jobs += 1

    def started(self, sent: int) -> None:
        """Count a job that says when its enqueue was called."""
        self.waits.append(clock() - sent)
        self.ran()


class Subject(Protocol):
    """One job queue, called through its public interface."""

    def setup(self) -> None: ...
    def one(self, jobs: int, timer: Timer) -> None: ...
    def many(self, jobs: int, timer: Timer) -> None: ...
    def trickle(self, jobs: int, pause: Callable[[], None]) -> None: ...
    def work(self, tally: Tally, *, drain: bool) -> None: ...


class Timer:
    """Times a `with` block: what comes before, such as connecting, is not counted."""

    start = seconds = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.start


def serve(subject: Subject) -> None:
    verb, *arguments = sys.argv[1:]
    count = int(arguments[0]) if arguments and arguments[0].isdigit() else 0
    match verb:
        case "setup":
            subject.setup()
            say(done=True)
        case "one" | "many":
            timer = Timer()
            (subject.one if verb == "one" else subject.many)(count, timer)
            say(jobs=count, seconds=timer.seconds)
        case "trickle":
            subject.trickle(count, Spread().pause)
            say(jobs=count, seconds=0)
        case "work":
            work(lambda tally: subject.work(tally, drain="drain" in arguments))


class Spread:
    """Pauses of 20 to 40 ms, the same in every run, so that no poll falls in step with them."""

    def __init__(self) -> None:
        self.number = 0

    def pause(self) -> None:
        self.number += 1
        time.sleep(0.02 + self.number * 7 % 20 / 1000)


def work(run: Callable[[Tally], None]) -> None:
    """Run a worker from `go` to `stop`, and report on it meanwhile."""
    say(ready=True)
    sys.stdin.readline()
    tally = Tally()
    start = cpu()
    threading.Thread(target=report, args=(tally, start), daemon=True).start()
    threading.Thread(target=end_when_told, args=(tally, start), daemon=True).start()
    run(tally)
    threading.Event().wait()


def report(tally: Tally, start: float) -> None:
    before = -1
    while True:
        time.sleep(REPORT_SECONDS)
        jobs = tally.jobs
        if jobs != before:
            before = jobs
            say(jobs=jobs, at=clock(), first=tally.first, cpu=cpu() - start)


def end_when_told(tally: Tally, start: float) -> None:
    for line in sys.stdin:
        if line == "memory\n":
            say(memory=memory())
        if line == "stop\n":
            break
    spent = cpu() - start
    say(stopped=True, jobs=tally.jobs, first=tally.first, waits=tally.waits, cpu=spent, memory=memory())
    # Its results are written and were counted: how a peer shuts down is not what we measure.
    os._exit(0)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory() -> float:
    """Give what this process holds in memory now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
