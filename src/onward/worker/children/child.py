"""A child process of a worker: runs one job after the other, for as long as its parent lives.

It is a new interpreter. It inherits no memory and no handle except the socket to its parent.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

import msgspec
from msgspec.structs import replace

from onward.core.failures.app_rules import Classification
from onward.core.jobs.job import Job
from onward.core.jobs.payload import lenient
from onward.core.records.usage import Meters, Usage
from onward.core.secrets.redaction import REDACTION
from onward.core.work.effect import MAX_RESULT_BYTES
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.handlers.clients import importing
from onward.handlers.context.context import Context
from onward.handlers.handler import Provider
from onward.handlers.job_type import JobType
from onward.origin import APPLICATION, running
from onward.origin_threads import follow_origins
from onward.worker.attempts.handler_frames import without_worker_frames
from onward.worker.children.protocol import (
    HEADER,
    REPORT_AGAIN,
    Ask,
    Completed,
    Completing,
    Metered,
    Note,
    Reported,
    Start,
    pack,
    to_answer,
)

_MAIN = ("__main__", "__mp_main__")
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main() -> NoReturn:
    """Serve the parent whose socket and process id are the first arguments."""
    # Ctrl-C is for the parent, which decides what becomes of its jobs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    # A process that a handler starts must not hold the socket open.
    os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=descriptor)
    # Not closed, because the process ends with it.
    stream = connection.makefile("rb")
    start = _read(stream)
    if start is None:
        os._exit(1)
    child = Child(msgspec.json.decode(start, type=Start), connection)
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(
        target=_listen, args=(stream, child, messages), name="onward parent", daemon=True
    ).start()
    read = msgspec.json.Decoder(Ask).decode
    while True:
        answer = child.answer(read(messages.get()))
        try:
            connection.sendall(answer)
        except OSError:
            # The parent is gone, or the handler has closed the socket: no answer can arrive.
            os._exit(1)


class Child:
    """Runs the jobs that the parent asks for."""

    def __init__(self, start: Start, parent: socket.socket) -> None:
        self._start = start
        self._parent = parent
        self._redaction = REDACTION
        self._own: Classification | None = None
        self._run_now: ChildRun | None = None
        sys.argv[:] = start.argv
        follow_origins()

    def allow_report(self) -> None:
        """Let the running job report again; called by the thread that listens to the parent."""
        if (run := self._run_now) is not None:
            run.allow_report()

    def answer(self, ask: Ask) -> bytes:
        """Run a job; return the packed message of what its handler returned or raised."""
        end: object
        run = self._run_now = ChildRun(ask.job, self._parent)
        try:
            end = self._run(ask, run)
        except BaseException as error:  # noqa: BLE001 - SystemExit too ends the job and not the process
            end = without_worker_frames(error)
        for stream in (sys.stdout, sys.stderr):
            # Else printed text would be lost when the parent ends this process.
            with suppress(Exception):
                stream.flush()
        return to_answer(end, self._redaction.hider(ask.job.payload), self._own)

    def _run(self, ask: Ask, run: ChildRun) -> object:
        job_type = self._find(ask.reference)
        handler, clients = job_type.handler, job_type.clients
        self._redaction, self._own = (
            clients.policies.settings.redact,
            clients.policies.registry.classification,
        )
        run.provider = handler.provider
        # The app's clients keep their settings, but the parent may use another database than the app names.
        clients.use(self._start.url)
        clients.schema = self._start.schema
        APPLICATION.set(clients.policies)
        context = {} if handler.context is None else {handler.context: Context(run, clients)}
        if clients.policies.settings.meter_runs:
            run.time()
        with limited(ask.memory), run, running(ask.job):
            return handler.function(**handler.arguments(ask.job.payload), **context)

    @cache  # noqa: B019 - there is one Child in a process
    def _find(self, reference: str) -> JobType[..., Any]:
        name, _, path = reference.partition(":")
        module = self._main() if name in _MAIN else importlib.import_module(name)
        found: Any = module
        try:
            for part in path.split("."):
                found = getattr(found, part)
        except AttributeError:
            raise LookupError(
                f"{reference!r} is not found by another process; define the job type at the top of its module"
            ) from None
        # The name may be that of the plain function, from which a job type of another name was made.
        for value in (found, *vars(module).values()):
            if isinstance(value, JobType) and (value is found or value.handler.function is found):
                return value
        raise LookupError(f"{reference!r} is no job type; keep what @app.job gives in a name of its module")

    def _main(self) -> ModuleType:
        """Import the parent's script under another name, so that its `__main__` guard does not run."""
        if sys.modules["__main__"].__name__ in {"__mp_main__", self._start.main_name}:
            return sys.modules["__main__"]
        with importing():
            if self._start.main_name is not None:
                module = importlib.import_module(self._start.main_name)
            else:
                module = _import_script(self._start.main_path)
        sys.modules["__main__"] = module
        return module


class ChildRun:
    """The attempt as its own process sees it; it is never told to stop, as the parent ends the process."""

    cancel_reason: str | None = None
    provider: Provider | None = None

    def __init__(self, job: Job, parent: socket.socket) -> None:
        self.job = job
        self._parent = parent
        self._meters = Meters()
        self._metering = threading.Lock()
        self._over = False
        self._began_at: float | None = None
        self._may_report = True
        self._unsent: Report | None = None
        self.last_report: Report | None = None

    def __enter__(self) -> None:
        """Start the run."""

    def __exit__(self, *_: object) -> None:
        """End the run; what a thread that the handler left behind does must not count for the next job."""
        with self._metering:
            self._send_report()
            self._over = True

    def wait_cancelled(self, timeout: float) -> bool:
        """Block for `timeout` seconds and return False: cancelling ends the process instead."""
        time.sleep(timeout)
        return False

    def meter(self, used: Usage) -> None:
        """Send usage to the parent at once, because the parent may end this process without a question."""
        with self._metering:
            # Added up here too, so that usage over a limit is refused in the handler.
            self._meters.add(used)
            if not self._over:
                self._parent.sendall(pack(Metered(used)))

    def report(self, report: Report) -> None:
        """Send the newest report to the parent, as soon as the parent is ready for one."""
        with self._metering:
            self.last_report = self._unsent = report
            if self._may_report:
                self._send_report()

    def allow_report(self) -> None:
        """Send the newest report if the parent has not got it, else send the next one at once."""
        with self._metering:
            self._may_report = True
            self._send_report()

    def _send_report(self) -> None:
        if self._unsent is not None and not self._over:
            self._may_report = False
            self._parent.sendall(pack(Reported(self._unsent)))
            self._unsent = None

    def time(self) -> None:
        """Meter the run for an end that the handler commits itself; the parent meters the ends it writes."""
        self._began_at = time.monotonic()
        self._meters.add(Usage("runs"))

    def usage(self) -> tuple[Usage, ...]:
        """Return what the run has used so far."""
        with self._metering:
            if self._began_at is not None:
                now = time.monotonic()
                self._meters.add(Usage("seconds", now - self._began_at))
                self._began_at = now
            return self._meters.read()

    def beginning(self) -> None:
        """Send nothing: when this process ends, so does its transaction."""

    def undone(self) -> None:
        """Send nothing about a rollback either."""

    def completing(self, end: End) -> None:
        """Send to the parent that the handler is about to commit its own end."""
        to = end.transition
        # The parent gets the result as it is stored, whatever type the handler gave.
        result = None if to.result is None else msgspec.Raw(lenient(to.result, MAX_RESULT_BYTES).encode())
        self._say(Completing(replace(end, transition=replace(to, result=result))))

    def completed(self, spent: frozenset[str]) -> None:
        """Send to the parent that the commit succeeded."""
        self._say(Completed(spent))

    def _say(self, note: Note) -> None:
        with self._metering:
            if not self._over:
                self._parent.sendall(pack(note))


@contextmanager
def limited(memory: int | None) -> Iterator[None]:
    """Let the process map at most `memory` bytes more than now; without effect outside Linux."""
    statm = Path("/proc/self/statm")
    if memory is None or not statm.exists():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
    limits = [limit for limit in (mapped + memory, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _die_with(parent: int) -> None:
    """Make the kernel end this process with its parent, as a handler may block all of its threads."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _listen(stream: BinaryIO, child: Child, messages: SimpleQueue[bytes]) -> None:
    """Queue the messages of the parent; end the process when the parent is gone."""
    try:
        while (message := _read(stream)) is not None:
            if message == REPORT_AGAIN:
                child.allow_report()
            else:
                messages.put(message)
    finally:
        os._exit(1)


def _read(stream: BinaryIO) -> bytes | None:
    """Return the next message of the parent; None if the parent is gone."""
    header = stream.read(HEADER.size)
    return stream.read(HEADER.unpack(header)[0]) if len(header) == HEADER.size else None


def _import_script(path: str | None) -> ModuleType:
    if path is None or not Path(path).is_file():
        raise LookupError("the job type is defined in no file; put it in a module that can be imported")
    module = ModuleType("__mp_main__")
    # Without a spec, as in a script: if the handler uses multiprocessing, that would import the spec's name.
    module.__file__ = path
    sys.modules["__mp_main__"] = module
    SourceFileLoader("__mp_main__", path).exec_module(module)
    return module
