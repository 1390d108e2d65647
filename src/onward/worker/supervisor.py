"""Several worker processes under one parent, which restarts those that die and releases their jobs.

Each child has a socket to its parent. Over it the child sends the worker ids that it registers under, and the
parent asks it to stop. When the socket closes, the parent is gone and the child stops by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from onward.logs import get_logger
from onward.worker.stopping import StopRequests, stop_signals

_FD = "ONWARD_PARENT_FD"
_REGISTERED = "registered "

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_STEADY_SECONDS = 10.0
"""The death of a child that lived for this many seconds does not count as a quick one."""
_QUICK_DEATHS = 5
_LAST_WORDS = 0.5
_ABANDON_AFTER = 3
_GIVE_BACK_WITHIN = 5.0
_STOP_LINES = (
    "stopping: taking no new jobs, waiting for those that run (Ctrl-C again releases them)",
    "releasing the running jobs (Ctrl-C again exits now)",
    "exiting",
)

# From harmless to grave; a code that is not listed is graver than all of these.
_GRAVITY = (0, 6, 129, 130, 143, 5, 2)

_log = get_logger("onward.supervisor")


def worst(codes: Sequence[int]) -> int:
    """Return the gravest of several exit codes; a child that a signal ended counts as failed."""
    shown = [code if code >= 0 else 1 for code in codes]
    return max(shown, key=lambda code: _GRAVITY.index(code) if code in _GRAVITY else len(_GRAVITY), default=0)


class Parent:
    """The parent process, as its child sees it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @classmethod
    def find(cls) -> Parent | None:
        """Return the parent that started this process as a child; None if there is none."""
        # Taken out of the environment, because processes started by this one are not children of that parent.
        number = os.environ.pop(_FD, None)
        if number is None:
            return None
        line = socket.socket(fileno=int(number))
        line.set_inheritable(False)
        return cls(line)

    def tell_registered(self, worker_id: str) -> None:
        """Send the worker's id to the parent, which releases its jobs if this process dies."""
        try:
            self._line.sendall(f"{_REGISTERED}{worker_id}\n".encode())
        except OSError:
            _log.warning("the parent process is gone")

    def watch(self, stop: Callable[[int], None]) -> None:
        """Call `stop`, in a thread, with the signal of each request to stop, and once if the parent is gone.

        Requests come over the socket, not as signals. A service manager may signal every process of a group,
        and each request would then arrive twice.
        """

        def listen() -> None:
            requested = False
            while True:
                with contextlib.suppress(OSError):
                    if numbers := self._line.recv(16):
                        requested = True
                        for number in numbers:
                            stop(number)
                        continue
                if not requested:
                    stop(signal.SIGTERM)
                return

        threading.Thread(target=listen, name="onward-parent", daemon=True).start()


class Child:
    """One process, from its start to its end."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        line: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.process = process
        self.worker_ids: list[str] = []
        self.ready = asyncio.Event()
        self.started = time.monotonic()
        # Keep both: a garbage-collected writer closes the socket.
        self._reader, self._writer = line
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
        """Start a process that finds its parent with `Parent.find()`."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **(env or {}), _FD: str(theirs.fileno())},
                # In a group of its own, else a terminal's Ctrl-C would reach it beside the parent's request.
                process_group=0,
            )
        return cls(process, await asyncio.open_connection(sock=ours))

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as the parent knows."""
        return self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.alive:
            self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask the child to stop, as that signal would."""
        if not self.ready.is_set():
            # A child that is still starting does not listen yet, and holds no jobs.
            self.send(signal.SIGTERM)
        self._writer.write(bytes([number]))

    async def wait(self) -> int:
        """Wait until the process has ended and its last messages are read; return the exit code."""
        code = await self.process.wait()
        # Do not wait for the socket to close: a process that the child has forked may hold it open.
        await asyncio.wait({self._listening}, timeout=_LAST_WORDS)
        self._listening.cancel()
        self._writer.close()
        return code

    async def _listen(self) -> None:
        while line := await self._reader.readline():
            text = line.decode(errors="replace")
            if text.startswith(_REGISTERED):
                self.worker_ids.append(text.removeprefix(_REGISTERED).strip())
                self.ready.set()


class Supervisor:
    """Keeps `processes` children running until they are done or it is asked to stop.

    `give_back` is called in a thread with the id of a worker that died and the way it died. It makes the
    worker's jobs ready again and returns their number.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        give_back: Callable[[str, str], int],
        kill_after: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._processes = processes
        self._give_back = give_back
        self._kill_after = kill_after
        self.children: dict[int, Child] = {}
        self._stops = 0
        self._requests = StopRequests(clock)
        self._stopping = asyncio.Event()
        self._quiet = False
        self._ever_ready = False
        self._quick_deaths = 0
        self._giving_back: list[threading.Thread] = []

    async def run(self) -> int:
        """Run until every child has ended for good; return the gravest of their exit codes."""
        loop = asyncio.get_running_loop()
        handled = {
            **dict.fromkeys(stop_signals(), self._on_stop),
            signal.SIGUSR1: self._toggle_quiet,
            signal.SIGUSR2: self._pass_on,
        }
        for number, act in handled.items():
            loop.add_signal_handler(number, act, number)
        try:
            return worst(await asyncio.gather(*(self._keep(number) for number in range(self._processes))))
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
            until = time.monotonic() + _GIVE_BACK_WITHIN
            for thread in self._giving_back:
                thread.join(max(until - time.monotonic(), 0))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Pass on a request to stop and restart no child; the third request kills children that ignore it."""
        self._stops += 1
        self._stopping.set()
        if self._stops <= len(_STOP_LINES):
            _log.info(_STOP_LINES[self._stops - 1])
        for child in self.children.values():
            child.stop(number)
        if self._stops == _ABANDON_AFTER:
            asyncio.get_running_loop().call_later(self._kill_after, self._pass_on, signal.SIGKILL)

    def _on_stop(self, number: signal.Signals) -> None:
        if self._requests.add():
            self.stop(number)

    def _toggle_quiet(self, number: signal.Signals) -> None:
        self._quiet = not self._quiet
        self._pass_on(number)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self.children.values():
            # A child that is not ready has no signal handler yet: the signal would end it.
            if child.ready.is_set() or number == signal.SIGKILL:
                child.send(number)

    async def _keep(self, number: int) -> int:
        """Keep one child running, restarting it when it dies; return the exit code of the last process."""
        deaths = 0
        while True:
            child = await Child.start(self._command)
            self.children[number] = child
            if self._stopping.is_set():
                # The signal came between the decision to start and the start.
                child.stop()
            welcome = asyncio.create_task(self._welcome(child))
            code = await child.wait()
            welcome.cancel()
            del self.children[number]
            if code in {0, 6}:
                return code
            soon = time.monotonic() - child.started < _STEADY_SECONDS
            deaths = deaths + 1 if soon else 1
            self._mourn(child, code)
            if self._stopping.is_set():
                # A child that was still starting had claimed nothing.
                return code if child.ready.is_set() else 0
            if self._gives_up(child, code):
                return code
            await self._pause(deaths)
            if self._stopping.is_set():
                return 0
            _log.info("starting another process in place of %s", child.process.pid)

    async def _welcome(self, child: Child) -> None:
        await child.ready.wait()
        self._ever_ready = True
        if self._quiet:
            child.send(signal.SIGUSR1)

    def _mourn(self, child: Child, code: int) -> None:
        """Log that a child died, and release its jobs at once."""
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if not self._stopping.is_set() or (code < 0 and child.ready.is_set()):
            _log.warning("process %s %s", child.process.pid, how)
        # In a daemon thread, because the child may have died of a database that does not answer.
        thread = threading.Thread(target=self._give_back_jobs, args=(child, how), daemon=True)
        thread.start()
        self._giving_back = [thread, *(other for other in self._giving_back if other.is_alive())]

    def _give_back_jobs(self, child: Child, how: str) -> None:
        for worker_id in child.worker_ids:
            try:
                if count := self._give_back(worker_id, how):
                    _log.warning("took back what process %s had (jobs: %s)", child.process.pid, count)
            except Exception as error:  # noqa: BLE001 - the lease gives them back, only later
                _log.warning("jobs of worker %s wait for the end of its lease: %s", worker_id, error)

    def _gives_up(self, child: Child, code: int) -> bool:
        """Whether to restart no more: no child ever became ready, and the children keep dying."""
        if self._ever_ready or child.ready.is_set():
            return False
        self._quick_deaths += 1
        if self._quick_deaths < _QUICK_DEATHS:
            return False
        _log.error(
            "giving up: no process became ready in %s starts; the last ended with %s",
            self._quick_deaths,
            code,
        )
        self.stop()
        return True

    async def _pause(self, deaths: int) -> None:
        longest = min(_FIRST_PAUSE * 2.0 ** min(deaths - 1, 10), _LONGEST_PAUSE)
        pause = longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads restarts, guards nothing
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause)
