"""Runs handlers in child processes: CPU work, and code that must not take the worker down with it.

A child runs one job at a time and is reused. A child that was asked to end, or that died, is never reused.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from onward.core.jobs.job import Job
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import Cancelled, End
from onward.core.work.progress import Report
from onward.errors import InvalidSetting
from onward.handlers.clients import check_not_importing
from onward.handlers.handler import Handler
from onward.worker.children.protocol import (
    HEADER,
    LARGEST,
    REPORT_AGAIN,
    Answer,
    Ask,
    Completed,
    Completing,
    Message,
    Metered,
    Note,
    Reported,
    Returned,
    Start,
    pack,
    rebuilt,
)

_KILL_AFTER = 1.0
_LAST_WORDS = 0.5
_REPORT_SECONDS = 0.5
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from onward.worker.children.child import main; main()"

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class ProcessDied(Exception):
    """Raised when the process of a job ended before its handler did."""


class _Run(Protocol):
    @property
    def job(self) -> Job: ...
    @property
    def cancel_reason(self) -> str | None: ...
    def meter(self, used: Usage) -> None: ...
    def report(self, report: Report) -> None: ...
    def completing(self, end: End) -> None: ...
    def completed(self, spent: frozenset[str]) -> None: ...


class ProcessPool:
    """At most `size` child processes, each with at most one job; the first starts with the first job.

    The pool belongs to the event loop that runs its jobs; call its methods there.
    """

    def __init__(self, size: int, *, url: str | None = None, schema: str = "onward") -> None:
        check_not_importing()
        self._url = url
        self._schema = schema
        self.idle_seconds = 60.0
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self.children: set[_Child] = set()
        self._attempts: set[_Attempt] = set()
        self._closed = False

    async def run(self, handler: Handler, run: _Run, *, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Run a job in a child; return what the handler returned, or raise what it raised.

        Raises ProcessDied if the process dies, and TimeoutError or Cancelled if the pool ends it. Whatever
        is raised, the handler no longer runs.
        """
        if self._closed:
            raise RuntimeError("the process pool is closed")
        attempt = _Attempt(run.job.id, asyncio.ensure_future(self._work(handler, run, timeout)))
        self._attempts.add(attempt)
        try:
            answer = await attempt.task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if attempt.cancelled and not (current and current.cancelling()):
                raise Cancelled(run.cancel_reason or "cancelled") from None
            raise
        finally:
            self._attempts.discard(attempt)
        if isinstance(answer, Returned):
            return answer.result
        raise rebuilt(answer)

    def cancel(self, job_id: str) -> None:
        """End the process that runs a job, or stop the job's wait for a process; else do nothing."""
        for attempt in self._attempts:
            if attempt.job_id == job_id:
                attempt.cancelled = True
                attempt.task.cancel()

    def kill(self) -> None:
        """Kill the processes that were asked to end and have not."""
        for child in self.children:
            child.kill()

    async def close(self, grace: float = 0) -> None:
        """Wait `grace` seconds for running jobs, then cancel the rest and end all processes."""
        self._closed = True
        tasks = [attempt.task for attempt in self._attempts]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await asyncio.gather(*(child.end() for child in list(self.children)))

    async def _work(self, handler: Handler, run: _Run, timeout: float | None) -> Answer:  # noqa: ASYNC109
        message = pack(Ask(handler.reference, handler.memory, run.job))
        async with self._free:
            child = self._take()
            sound = False
            try:
                async with asyncio.timeout(timeout):
                    answer = await child.request(message, partial(_take_note, run))
                # A failed allocation may leave state half changed, so the next job gets a new process.
                sound = isinstance(answer, Returned) or answer.described.error_class != "MemoryError"
            except TimeoutError:
                # Rounded, because it may be the remainder of a round number.
                raise TimeoutError(f"ran longer than {round(timeout or 0, 2):g} s") from None
            finally:
                if sound and not self._closed:
                    self._rest(child)
                else:
                    await child.end()
        return answer

    def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.wake():
                return child
        child = _Child(pack(_start(self._url, self._schema)))
        self.children.add(child)
        child.exited.add_done_callback(lambda _: self.children.discard(child))
        return child

    def _rest(self, child: _Child) -> None:
        """Keep a child for the next job, for at most `idle_seconds`."""
        self._idle.append(child)
        child.rest(self.idle_seconds)


class _Attempt:
    """One call of `run`: its work, and whether it was cancelled through the pool."""

    def __init__(self, job_id: str, task: asyncio.Task[Answer]) -> None:
        self.job_id = job_id
        self.task = task
        self.cancelled = False


class _Child:
    """A child process, from its start to its end."""

    def __init__(self, start: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._start: bytes = start
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._requested = False
        self._ending = False
        self.exited: asyncio.Future[int] = self._loop.create_future()
        with ExitStack() as unless_started:
            ours, theirs = socket.socketpair()
            unless_started.enter_context(ours)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    _command(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C must reach only the parent; and what the child starts can be ended with it.
                    process_group=0,
                )
            unless_started.pop_all()
        self._line = ours
        # In a thread. The closing of the socket is no sign: a process forked by a handler may hold it open.
        name = f"onward child {self._process.pid}"
        threading.Thread(target=self._wait, name=name, daemon=True).start()

    async def request(self, message: bytes, take_note: Callable[[Note], None]) -> Answer:
        """Run a job and pass its notes to `take_note`; return the answer, or raise ProcessDied."""
        self._requested = True
        exchange = asyncio.ensure_future(self._exchange(message, take_note))
        try:
            either: set[asyncio.Future[Any]] = {exchange, self.exited}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            # After an exit, the last answer may still be on its way.
            await asyncio.wait({exchange}, timeout=_LAST_WORDS)
            answer = exchange.result() if exchange.done() else None
        except (msgspec.DecodeError, InvalidSetting):
            raise ProcessDied("the process sent something that is no answer") from None
        finally:
            exchange.cancel()
            self._requested = False
            if self.exited.done():
                self._hang_up()
        if answer is None:
            await asyncio.wait({self.exited}, timeout=_LAST_WORDS)
            raise ProcessDied(self._epitaph())
        return answer

    def rest(self, seconds: float) -> None:
        """Wait for another job; end the process after `seconds` without one."""
        self._timer = self._loop.call_later(seconds, self._terminate)

    def wake(self) -> bool:
        """Prepare for a job; return False if the process has ended or is about to."""
        if self._ending or self.exited.done():
            return False
        if self._timer is not None:
            self._timer.cancel()
        return True

    async def end(self) -> None:
        """End the process and wait until it is gone; it ends also if the wait is cancelled."""
        self._terminate()
        await asyncio.wait({self.exited})
        # The socket is closed in the next iteration of the event loop, which may be the last.
        await asyncio.sleep(0)

    def kill(self) -> None:
        """End the process at once if it was asked to end."""
        if self._ending:
            self._signal(signal.SIGKILL)

    async def _exchange(self, message: bytes, take_note: Callable[[Note], None]) -> Answer | None:
        """Send a message and return the answer; None if the connection breaks."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._line)
                self._streams[1].write(self._start)
            reader, writer = self._streams
            writer.write(message)
            await writer.drain()
            while True:
                (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                received = _decoder.decode(await reader.readexactly(length) if length <= LARGEST else b"")
                if isinstance(received, Answer):
                    return received
                take_note(received)
                if isinstance(received, Reported):
                    self._loop.call_later(_REPORT_SECONDS, self._let_report)
        except (OSError, EOFError):
            return None

    def _let_report(self) -> None:
        # A job that has ended meanwhile ignores it, and the next job may report at once anyway.
        if self._streams is not None and not self._streams[1].is_closing():
            self._streams[1].write(HEADER.pack(len(REPORT_AGAIN)) + REPORT_AGAIN)

    def _terminate(self) -> None:
        if not self._ending:
            self._ending = True
            if self._timer is not None:
                self._timer.cancel()
            self._signal(signal.SIGTERM)
            self._timer = self._loop.call_later(_KILL_AFTER, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Once the process was waited for, its id may belong to another process.
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _wait(self) -> None:
        code = self._process.wait()
        # The loop may have been closed without closing the pool.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, code)

    def _ended(self, code: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.exited.set_result(code)
        # While a job is asked for, its last answer may still have to be read.
        if not self._requested:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._streams is None:
            self._line.close()
        else:
            self._streams[1].transport.abort()

    def _epitaph(self) -> str:
        if not self.exited.done():
            return "the process no longer answers"
        code = self.exited.result()
        if code >= 0:
            return f"the process ended with exit code {code} before the handler did"
        with suppress(ValueError):
            return f"the process was killed by {signal.Signals(-code).name}"
        return f"the process was killed by signal {-code}"


def _take_note(run: _Run, received: Note) -> None:
    match received:
        case Metered(used):
            run.meter(Usage.checked(*msgspec.structs.astuple(used)))
        case Reported(report):
            run.report(Report.checked(*msgspec.structs.astuple(report)))
        case Completing(end):
            run.completing(end)
        case Completed(spent):
            run.completed(spent)


def _command(descriptor: int) -> list[str]:
    # The private function that multiprocessing uses; it keeps -O, -W, -X and the like.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    path = [entry or str(Path.cwd()) for entry in sys.path]
    return [sys.executable, *flags, "-c", _BOOT, str(descriptor), str(os.getpid()), *path]


def _start(url: str | None, schema: str) -> Start:
    script = sys.modules["__main__"]
    spec = getattr(script, "__spec__", None)
    name = None if spec is None or spec.name in {"__main__", "__mp_main__"} else spec.name
    file = getattr(script, "__file__", None)
    return Start(sys.argv, name, None if file is None else str(Path(file).absolute()), url, schema)
