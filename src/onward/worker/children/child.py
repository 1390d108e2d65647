"""A child process of a worker: runs one job after the other, for as long as its parent lives.

It is a new interpreter: it inherits no memory, handle or socket but the one to its parent.
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
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from onward.core.failures.app_rules import Classification
from onward.core.jobs.job import Job
from onward.core.jobs.payload import lenient
from onward.core.records.usage import Meters, Usage
from onward.core.secrets.redaction import REDACTION
from onward.core.work.lifecycle import End
from onward.handlers.clients import importing
from onward.handlers.context.context import Context
from onward.handlers.handler import Provider
from onward.handlers.job_type import JobType
from onward.operations.work.work import MAX_RESULT_BYTES
from onward.origin import running
from onward.worker.children.protocol import (
    HEADER,
    Ask,
    Completed,
    Completing,
    Metered,
    Note,
    Start,
    pack,
    to_answer,
)

_MAIN = ("__main__", "__mp_main__")
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main() -> NoReturn:
    """Serve the parent whose socket and process id are the first arguments."""
    # A Ctrl-C is for the parent, which decides what becomes of its jobs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    # What a handler starts must not hold this line open.
    os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=descriptor)
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), name="onward parent", daemon=True).start()
    child = Child(msgspec.json.decode(messages.get(), type=Start), connection)
    read = msgspec.json.Decoder(Ask).decode
    while True:
        answer = child.answer(read(messages.get()))
        try:
            connection.sendall(answer)
        except OSError:
            # The parent is gone, or the handler has closed the line; either way nobody hears.
            os._exit(1)


class Child:
    """Runs the jobs that the parent asks for."""

    def __init__(self, start: Start, parent: socket.socket) -> None:
        self._start = start
        self._parent = parent
        self._redaction = REDACTION
        self._own: Classification | None = None
        sys.argv[:] = start.argv

    def answer(self, ask: Ask) -> bytes:
        """Run a job and write what its handler returned or raised."""
        end: object
        run = ChildRun(ask.job, self._parent)
        try:
            end = self._run(ask, run)
        except BaseException as error:  # noqa: BLE001 - SystemExit too ends the job and not the process
            end = _without_our_frames(error)
        for stream in (sys.stdout, sys.stderr):
            # What was printed would be lost when this process is ended.
            with suppress(Exception):
                stream.flush()
        return to_answer(end, run.artifacts, self._redaction.hider(ask.job.payload), self._own)

    def _run(self, ask: Ask, run: ChildRun) -> object:
        job_type = self._find(ask.reference)
        handler, clients = job_type.handler, job_type.clients
        self._redaction, self._own = clients.rules.redact, clients.rules.classification
        run.provider = handler.provider
        # The app's own, with its rules; but its parent may have been told to keep jobs elsewhere.
        clients.url, clients.schema = self._start.url, self._start.schema
        context = {} if handler.context is None else {handler.context: Context(run, clients)}
        if clients.rules.meter_runs:
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
        # A name may stand for the plain function, where the job type was made from it and has another name.
        for value in (found, *vars(module).values()):
            if isinstance(value, JobType) and (value is found or value.handler.function is found):
                return value
        raise LookupError(f"{reference!r} is no job type; keep what @app.job gives in a name of its module")

    def _main(self) -> ModuleType:
        """Import the parent's script under another name, so that what it guards by its name does not run."""
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
    """The attempt as its own process sees it: who cancels it ends the process, so it never learns."""

    cancel_reason: str | None = None
    provider: Provider | None = None

    def __init__(self, job: Job, parent: socket.socket) -> None:
        self.job = job
        self.artifacts = 0
        self._parent = parent
        self._meters = Meters()
        self._metering = threading.Lock()
        self._over = False
        self._began_at: float | None = None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End: what a thread that the handler left behind uses now would be taken for the next job's."""
        with self._metering:
            self._over = True

    def wait_cancelled(self, timeout: float) -> bool:
        """Block for that time."""
        time.sleep(timeout)
        return False

    def meter(self, used: Usage) -> None:
        """Tell the parent at once: who ends this process does not ask before."""
        with self._metering:
            # Added up here too, so that what goes over a limit is refused where it is asked for.
            self._meters.add(used)
            if not self._over:
                self._parent.sendall(pack(Metered(used)))

    def time(self) -> None:
        """Have the run itself metered in what it completes; the parent does so in what it writes."""
        self._began_at = time.monotonic()
        self._meters.add(Usage("runs"))

    def usage(self) -> tuple[Usage, ...]:
        """Give what the run has used so far."""
        with self._metering:
            if self._began_at is not None:
                now = time.monotonic()
                self._meters.add(Usage("seconds", now - self._began_at))
                self._began_at = now
            return self._meters.read()

    def beginning(self) -> None:
        """Keep it to itself: when this process is ended, so is its transaction."""

    def undone(self) -> None:
        """Keep that to itself, too."""

    def completing(self, end: End) -> None:
        """Tell the parent that the handler is about to commit its own end."""
        to = end.transition
        # What travels is what is stored, whatever the handler gave.
        result = None if to.result is None else msgspec.Raw(lenient(to.result, MAX_RESULT_BYTES).encode())
        self._say(Completing(replace(end, transition=replace(to, result=result))))

    def completed(self, spent: frozenset[str]) -> None:
        """Tell the parent that it has."""
        self._say(Completed(spent))

    def _say(self, note: Note) -> None:
        with self._metering:
            if not self._over:
                self._parent.sendall(pack(note))


@contextmanager
def limited(memory: int | None) -> Iterator[None]:
    """Let the process map so many bytes more than it has mapped; only Linux can tell how many that are."""
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
    """Ask the kernel to end this process with its parent: a handler may keep every thread of ours waiting."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _listen(connection: socket.socket, messages: SimpleQueue[bytes]) -> None:
    """Hand over what the parent sends; end the process when it is gone."""
    try:
        # Not to be closed on the way out: the process ends here.
        stream = connection.makefile("rb")
        while len(header := stream.read(HEADER.size)) == HEADER.size:
            messages.put(stream.read(HEADER.unpack(header)[0]))
    finally:
        os._exit(1)


def _import_script(path: str | None) -> ModuleType:
    if path is None or not Path(path).is_file():
        raise LookupError("the job type is defined in no file; put it in a module that can be imported")
    module = ModuleType("__mp_main__")
    # Without a spec, as a script is: multiprocessing, if the handler uses it, would import what a spec names.
    module.__file__ = path
    sys.modules["__mp_main__"] = module
    SourceFileLoader("__mp_main__", path).exec_module(module)
    return module


def _without_our_frames(error: BaseException) -> BaseException:
    """Leave the frames of this file out of a traceback, unless there are no others."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return error if inner is None else error.with_traceback(inner)
