"""Run one worker in this process: handle its signals and return its exit code.

A process that was asked to stop always ends, even if the database or a handler does not respond.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from onward.core.inputs.plain_text import count
from onward.core.inputs.plain_text import one_line as clean
from onward.worker.stopping import StopRequests, stop_signals

if TYPE_CHECKING:
    from onward.worker.supervisor import Parent
    from onward.worker.tally import Tally
    from onward.worker.worker import Worker

JOBS_FAILED = 6
_CUT_SHORT = 2
_ABANDONED = 3
_UNREACHABLE = 5
# Seconds after the grace period in which a worker cancels its handlers and writes the last results.
_AFTERWARDS = 15.0
_LAST_MOMENT = 1.0


class Signals:
    """The signals of this process, or the requests of its parent, and how often a stop was requested.

    Python handles the signals, not the event loop: a job that blocks the loop can't delay them.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        grace: timedelta,
        parent: Parent | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._grace = grace.total_seconds()
        self._parent = parent
        self._quiet = False
        self._requests = StopRequests(clock)
        self._parents_requests = 0
        self._taken: dict[int, object] = {}
        self._late_code = _UNREACHABLE
        self.exit_code = 0

    def handle(self) -> None:
        """Install the signal handlers for the rest of this process."""
        for number in stop_signals():
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGUSR1, self._toggle_quiet)
        signal.signal(signal.SIGUSR2, self._dump)
        signal.signal(signal.SIGALRM, self._leave)
        if self._parent is not None:
            self._parent.watch(self._on_parent_stop)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        # The parent decides when a child hurries. A terminal sends the same signal to parent and child, so a
        # signal to a child counts only once.
        if self._parent is not None:
            self._ask(number, self._parents_requests or 1)
        elif self._requests.add():
            self._ask(number, self._requests.count)

    def _on_parent_stop(self, number: int) -> None:
        self._parents_requests += 1
        self._ask(number, self._parents_requests)

    def _ask(self, number: int, times: int) -> None:
        token = object()
        # Not a lock: a signal handler would deadlock on a lock that the interrupted code holds.
        if self._taken.setdefault(times, token) is not token:
            return
        if times >= _CUT_SHORT:
            self.exit_code = self._late_code = 128 + number
        if times > _ABANDONED:
            os._exit(self.exit_code)
        # The process must end even if the database does not answer or the loop is blocked. The jobs that it
        # held come back when their leases run out.
        waits = {1: self._grace + _AFTERWARDS, 2: _AFTERWARDS, 3: _LAST_MOMENT}
        signal.setitimer(signal.ITIMER_REAL, waits[times])
        if self._parent is None:
            _write(f"{datetime.now().astimezone():%H:%M:%S} {self._stop_line(times)}\n")
        # `stop` raises when the worker's loop is already closed.
        with suppress(RuntimeError):
            self._worker.stop()

    def _stop_line(self, times: int) -> str:
        """Return what the next request to stop does, and the one after it."""
        running = self._worker.running
        match times:
            case 1:
                waits = f", waiting up to {self._grace:g}s for {running} running" if running else ""
                return f"stopping: taking no new jobs{waits} (Ctrl-C again releases them)"
            case 2:
                return f"releasing {count(running, 'running job')} (Ctrl-C again exits now)"
        return "exiting"

    def _leave(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.exit_code:
            _write("exiting: the database or a handler does not let go; jobs come back when the lease ends\n")
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
    """Tune the interpreter for a process that only runs jobs."""
    # SQLite's thread competes with the event loop for the GIL; the default of 5 ms made it a tenth slower.
    sys.setswitchinterval(0.0001)
    # Imported objects stay for ever, and claimed jobs live until they are written. Searching them for
    # garbage at every 700 objects took a fifteenth of the time.
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
    """Run a worker until it ends and return the exit code."""
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
    """Return uvloop's event loop factory, or None (the standard library's loop) if uvloop is missing."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _leave_if_held(code: int) -> None:
    """End the process even if handler threads run: their jobs were released, and no thread can be killed."""
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
    # Not print, which is not reentrant: the signal may have interrupted another print.
    with suppress(OSError):
        os.write(2, text.encode(errors="replace"))
