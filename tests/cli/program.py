"""A command that runs as a program of its own, watched by what it prints."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

PATIENCE = 20.0


class Program:
    """`onward …` in a folder; both of its streams are read as lines, in the order of their coming."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onward", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE)
        self._process.stdout.close()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> str:
        """Wait for a line with this text, after those that were waited for already."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._queue.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                line = None
            assert line is not None, f"no line with {text!r} in:\n{self.output}"
            self.lines.append(line)
            if text in line:
                return line

    def has_said(self, text: str) -> bool:
        """Tell whether any line so far has this text; does not wait."""
        while not self._queue.empty():
            line = self._queue.get()
            if line is None:
                # That it has ended is for `end` to find.
                self._queue.put(None)
                break
            self.lines.append(line)
        return text in self.output

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_until(self, number: signal.Signals, text: str) -> None:
        """Send a signal until it has this effect: one that comes too soon after another does not count."""
        end = time.monotonic() + PATIENCE
        while True:
            self.send(number)
            try:
                line = self._queue.get(timeout=0.1)
            except queue.Empty:
                line = ""
            if line is None:
                # That it has ended is for `end` to find.
                self._queue.put(None)
                return
            self.lines += [line] if line else []
            if line and text in line:
                return
            assert time.monotonic() < end, f"no line with {text!r} in:\n{self.output}"

    def end(self) -> int:
        """Wait for the end; gives the exit code, and leaves all lines in `lines`."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        while (line := self._queue.get()) is not None:
            self.lines.append(line)
        return code

    def _read(self) -> None:
        for line in self._process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)
