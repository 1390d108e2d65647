"""`onward dev`: run a worker and restart it whenever a file of the project changes.

The worker runs in a child process, because imported code can't be unloaded.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onward.cli.find_app import check_module, name_of_app, pass_on_url
from onward.cli.log_setup import LEVELS
from onward.cli.times import to_length
from onward.cli.views.text import say
from onward.core.inputs.plain_text import one_line as clean
from onward.worker.stopping import StopRequests, stop_signals

if TYPE_CHECKING:
    from onward.worker.supervisor import Child

_LOOK_EVERY = 0.5
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Stamps = dict[str, tuple[int, int]]


@click.command("dev")
@click.argument("app", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="The number of slots: jobs at once.",
)
@click.option(
    "--grace",
    callback=to_length,
    metavar="TIME",
    default="5s",
    show_default=True,
    help="How long running jobs may take to finish before a restart or exit.",
)
@click.option("--url", metavar="URL", help="The database; else the app's own, else ONWARD_URL.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def command(*, app: str | None, concurrency: int, grace: timedelta, url: str | None, log_level: str) -> int:
    """Run the jobs of APP (module:attribute) in this folder, and restart when a .py file changes.

    Without APP, the app comes from ONWARD_APP, onward.toml, pyproject.toml or ./app.py.
    """
    pass_on_url(url)
    app = name_of_app(app)
    # The command waits while the user fixes broken code, but a wrong app name can never succeed: fail at
    # once.
    check_module(app)
    worker = [sys.executable, "-m", "onward", "worker", app, "--concurrency", str(concurrency)]
    return asyncio.run(
        _Reloader([*worker, f"--grace={grace.total_seconds()}s", "--log-level", log_level]).run()
    )


class _Reloader:
    """Keeps one child process running with the current code."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._requests = StopRequests()
        self._began = time.monotonic()

    async def run(self) -> int:
        """Run until a signal stops it; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._stop, number)
        start = "first"
        while True:
            code = await self._run_child(start)
            if self._stopping.is_set():
                return code
            start, self._began = "again", time.monotonic()

    async def _run_child(self, start: str) -> int:
        """Run the worker until a file changes or a stop is requested; return its exit code."""
        from onward.worker.supervisor import Child

        stamps = source_stamps(Path.cwd())
        child = self._child = await Child.start([*self._command, "--dev", start])
        if self._stopping.is_set():
            child.stop()
        ready = asyncio.create_task(self._tell_ready(child))
        ended = asyncio.create_task(child.wait())
        changed = asyncio.create_task(_wait_for_change(stamps))
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ended, changed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not stopped.done():
            say(f"the worker ended with exit code {ended.result()}; it starts again when a file changes")
            await asyncio.wait({changed, stopped}, return_when=asyncio.FIRST_COMPLETED)
            code = 0
        else:
            if not stopped.done():
                child.stop()
            code = await ended
            # A child that was still starting had no signal handler, so its exit code is that of the signal.
            # It held no jobs.
            code = code if child.ready.is_set() else 0
        for task in (ready, changed, stopped):
            task.cancel()
        return code

    async def _tell_ready(self, child: Child) -> None:
        await child.ready.wait()
        say(f"ready in {time.monotonic() - self._began:.1f}s")

    def _stop(self, number: signal.Signals) -> None:
        self._stopping.set()
        if self._requests.add() and self._child is not None:
            self._child.stop(number)


async def _wait_for_change(before: Stamps) -> None:
    """Poll the files until one of them is added, removed or changed."""
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        here = Path.cwd()
        now = await asyncio.to_thread(source_stamps, here)
        if changed := sorted(name for name, _ in before.items() ^ now.items()):
            say(f"changed: {clean(str(Path(changed[0]).relative_to(here)))}; starting again")
            return


def source_stamps(folder: Path) -> Stamps:
    """Return time and size of every .py file in a folder; skip hidden folders and virtual environments."""
    stamps: Stamps = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - many files
        ]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)  # noqa: PTH118 - many files
                with suppress(OSError):
                    found = os.stat(path)  # noqa: PTH116 - many files
                    stamps[path] = (found.st_mtime_ns, found.st_size)
    return stamps
