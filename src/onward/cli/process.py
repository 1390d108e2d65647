"""Run one worker in this process: its signals, and the exit code that it ends with."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.worker.supervisor import Parent
    from onward.worker.tally import Tally
    from onward.worker.worker import Worker

JOBS_FAILED = 6
_CUT_SHORT = 2
_ABANDONED = 3
_UNREACHABLE = 5
# What a worker may take after its grace: to let go of its handlers and to write the last results.
_AFTERWARDS = 15.0
_LAST_MOMENT = 1.0
_TOLD = {1: "stopping: no new jobs; again: give back what runs", 2: "giving back what runs", 3: "leaving"}


class Signals:
    """What the signals of this process, or its parent, ask of a worker, and how often they asked.

    Handled by Python rather than by the event loop: a job that blocks the loop can't hold them back.
    """

    def __init__(self, worker: Worker, *, grace: timedelta, parent: Parent | None = None) -> None:
        self._worker = worker
        self._grace = grace.total_seconds()
        self._parent = parent
        self._quiet = False
        self._asked = 0
        self._taken: dict[int, object] = {}
        self._late_code = _UNREACHABLE
        self.exit_code = 0

    def handle(self) -> None:
        """Take the signals over, for the rest of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGUSR1, self._toggle_quiet)
        signal.signal(signal.SIGUSR2, self._dump)
        signal.signal(signal.SIGALRM, self._leave)
        if self._parent is not None:
            self._parent.watch(self._told)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        # A child is told by its parent to make haste; a signal, that may have gone to both, asks only once.
        if self._parent is None:
            self._asked += 1
        self._ask(number, self._asked or 1)

    def _told(self, number: int) -> None:
        self._asked += 1
        self._ask(number, self._asked)

    def _ask(self, number: int, times: int) -> None:
        token = object()
        # Not a lock, which a signal could find taken by the code that it interrupts.
        if self._taken.setdefault(times, token) is not token:
            return
        if times >= _CUT_SHORT:
            self.exit_code = self._late_code = 128 + number
        if times > _ABANDONED:
            os._exit(self.exit_code)
        # However deaf the database or blocked the loop: the process ends. Leases give back what it held.
        waits = {1: self._grace + _AFTERWARDS, 2: _AFTERWARDS, 3: _LAST_MOMENT}
        signal.setitimer(signal.ITIMER_REAL, waits[times])
        if self._parent is None:
            _write(f"{datetime.now().astimezone():%H:%M:%S} {_TOLD[times]}\n")
        # After its last moment the worker's loop is closed.
        with suppress(RuntimeError):
            self._worker.stop()

    def _leave(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.exit_code:
            _write("leaving: the database or a handler does not let go; jobs come back when the lease ends\n")
        os._exit(self._late_code)

    def _toggle_quiet(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._quiet = not self._quiet
        _write("quiet: claims nothing until USR1 comes again\n" if self._quiet else "claims jobs again\n")
        self._worker.quiet(self._quiet)

    def _dump(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        lines = self._worker.describe().splitlines()
        _write("".join(f"{line[: len(line) - len(line.lstrip(' '))]}{clean(line)}\n" for line in lines))


def tune() -> None:
    """Set the interpreter up for a process that does nothing but work off jobs."""
    # SQLite's thread must get its turn beside the event loop: with the default of 5 ms it is a tenth slower.
    sys.setswitchinterval(0.0001)
    # What was imported stays, and what a claim brings lives until it is written: to look among it for garbage
    # at every 700 objects took a fifteenth of the time.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def run_worker(
    worker: Worker,
    *,
    drain: bool,
    grace: timedelta,
    parent: Parent | None,
    done: Callable[[Tally], None] | None,
) -> int:
    """Run a worker to its end; gives the exit code."""
    tune()
    signals = Signals(worker, grace=grace, parent=parent)
    signals.handle()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        tally = runner.run(worker.run())
    if done:
        done(tally)
    code = signals.exit_code or (JOBS_FAILED if drain and tally.dead else 0)
    _leave_if_held(code)
    return code


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Give uvloop's event loop where it is installed; None means that of the standard library."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _leave_if_held(code: int) -> None:
    """End the process although threads run on: their jobs were given back, and nothing can end a thread."""
    held = [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread()
    ]
    if held:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _write(text: str) -> None:
    # Not by print: a signal may come in the middle of one, which can't be entered twice.
    with suppress(OSError):
        os.write(2, text.encode(errors="replace"))
