"""Five schedulers that are killed at random: `python -m tests.schedules.killed_schedulers URL SCHEMA SEED`.

Each is a process of its own, and ends by SIGKILL somewhere in a transaction, before any of its statements or
before its commit. Another takes its place. They share a clock, which goes on whenever one of them has fired.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from onward import Client
from onward.core.jobs.ids import IdMaker
from onward.core.policy.policies import Policies
from onward.core.schedules.firing import Fired
from onward.operations.schedules import fire
from onward.operations.schedules.fire import Known
from onward.operations.statement import Operation
from onward.stores import open_store
from tests.extent import FULL

__all__ = ["BEGIN", "DAYS", "KNOWN"]

BEGIN = datetime(2026, 3, 25, tzinfo=UTC)
DAYS = timedelta(days=10)
KNOWN = Known({"report"})
COUNT = 5
ONE_IN = 6
LONGEST_STEP = (5 if FULL else 15) * 3600.0

_ids = IdMaker(time.time_ns, os.urandom)


def mortal(operation: Operation[Fired], dice: random.Random) -> Operation[Fired]:
    """Run an operation that may be the last thing that this process does."""
    asked = next(operation)
    first = True
    while True:
        # Most of the time nothing is due; then there is nothing to break either.
        if not first and dice.randrange(ONE_IN) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = yield asked
        first = False
        try:
            asked = operation.send(rows)
        except StopIteration as done:
            fired: Fired = done.value
            if fired.jobs and dice.randrange(ONE_IN) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return fired


def mortal_of(fire: Callable[[], Operation[Fired]], dice: random.Random) -> Operation[Fired]:
    """Begin anew, should the store have to."""
    return mortal(fire(), dice)


class Clock:
    """Seconds since the beginning, in memory that all of them share."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    def now(self) -> datetime:
        """Tell the time; at last it stands still."""
        [passed] = struct.unpack("d", self._shared[:])
        return min(BEGIN + timedelta(seconds=passed), BEGIN + DAYS)

    def go_on(self, since: datetime, seconds: float) -> None:
        """Let time pass; two who do so at once count as one."""
        self._shared[:] = struct.pack("d", (since - BEGIN).total_seconds() + seconds)


def fire_until_the_end(url: str, schema: str, clock: Clock, seed: int) -> None:
    """Fire what is due as time goes by, and be through with it at the end."""
    dice = random.Random(seed)
    with Client(store=open_store(url, schema=schema)) as client:
        while True:
            now = clock.now()
            firing = partial(fire.fire, KNOWN, _ids.make, Policies())
            fired = client.at(now)._binding.run(partial(mortal_of, firing, dice), atomic=True)
            # One that was passed over is held by another, who may yet be killed: asked without a lock.
            due = client.at(now).worker.due(KNOWN).next_occurrence
            if now >= BEGIN + DAYS and not fired.more and (due is None or due > now):
                return
            # While another one fires, time stands still: else the ten days would be over after a few kills.
            if fired.jobs or due is None or due > now:
                clock.go_on(now, dice.uniform(0.0, LONGEST_STEP))


def main(url: str, schema: str, seed: int) -> int:
    """Keep five of them alive until the ten days are over; tells how many were killed."""
    clock, kills = Clock(), 0
    # What is read and compiled here, those that are forked need not.
    with Client(store=open_store(url, schema=schema)) as client:
        client.at(BEGIN).worker.schedules.fire(KNOWN)
        client.at(BEGIN).worker.due(KNOWN)

    def start() -> None:
        nonlocal seed
        seed += 1
        if os.fork() == 0:
            code = 1
            try:
                fire_until_the_end(url, schema, clock, seed)
                code = 0
            finally:
                os._exit(code)

    for _ in range(COUNT):
        start()
    running = COUNT
    while running:
        _, status = os.wait()
        if os.WIFSIGNALED(status):
            kills += 1
            start()
        else:
            assert os.waitstatus_to_exitcode(status) == 0
            running -= 1
    print(kills)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
