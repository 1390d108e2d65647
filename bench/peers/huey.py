"""Huey on SQLite: WAL as by default, every commit flushed (fsync=True), one thread, polls every 10 ms."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from huey import SqliteHuey

from bench.speaking import Tally, Timer, clock, serve

huey = SqliteHuey(filename=os.environ["PEER_URL"], fsync=True)
tally = Tally()


def noop(n: int) -> None:  # noqa: ARG001
    tally.ran()


def sent(at: int) -> None:
    tally.started(at)


noop_task = huey.task(name="noop")(noop)
sent_task = huey.task(name="sent")(sent)


class Huey:
    def setup(self) -> None:
        huey.storage.initialize_schema()

    def one(self, jobs: int, timer: Timer) -> None:
        with timer:
            for number in range(jobs):
                noop_task(number)

    def many(self, jobs: int, timer: Timer) -> None:
        # It has no bulk enqueue.
        self.one(jobs, timer)

    def trickle(self, jobs: int, pause: Callable[[], None]) -> None:
        for _ in range(jobs):
            pause()
            sent_task(clock())

    def work(self, counted: Tally, *, drain: bool) -> None:  # noqa: ARG002
        global tally  # noqa: PLW0603
        tally = counted
        logging.getLogger("huey").setLevel(logging.WARNING)
        huey.create_consumer(workers=1, periodic=False, initial_delay=0.01, backoff=1.0, max_delay=0.01).run()


if __name__ == "__main__":
    serve(Huey())
