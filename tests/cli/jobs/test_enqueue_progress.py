"""`onward enqueue --wait` shows how far the job is, to people and not to programs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from onward.cli.views.progress_line import progress_text
from onward.results import Progress
from tests.cli.program import PATIENCE, Program

APP = """
import threading
from pathlib import Path

from onward import Context, Onward

app = Onward("sqlite:///jobs.db")

@app.job
def export(ctx: Context, go: str) -> int:
    for page in ctx.progress(range(4)):
        if page == 1:
            ctx.report(1, 4, "page 1\\x1b[31m")
            while not Path(go).exists():
                threading.Event().wait(0.005)
    return 4
"""


@pytest.fixture
def app(folder):
    (folder / "app.py").write_text(APP)


@pytest.mark.parametrize(
    ("done", "total", "note", "text"),
    [
        (30, 120, "page 4", "30 of 120 (25 %)  page 4"),
        (119.5, 120, None, "119.5 of 120 (99 %)"),
        (1_000_000, None, None, "1000000 done"),
        (0, 0, None, "0 of 0 (100 %)"),
    ],
)
def test_progress_in_words(done, total, note, text):
    assert progress_text(Progress(done, total, note, datetime(2026, 1, 2, tzinfo=UTC))) == text


def test_on_a_terminal_the_progress_is_shown_until_the_end(app, folder):
    ours, theirs = pty.openpty()
    said = b""
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("  worker ")
        command = [sys.executable, "-m", "onward", "enqueue", "export", "go=go", "--wait", "--timeout", "20s"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs) as asked:
            os.close(theirs)
            # Its end closes the terminal, which some systems report as an error.
            with suppress(OSError):
                while part := os.read(ours, 1000):
                    said += part
                    if b"1 of 4 (25 %)  page 1" in said:
                        (folder / "go").touch()
            out, _ = asked.communicate(timeout=PATIENCE)
    os.close(ours)
    assert (asked.returncode, out) == (0, b"4\n"), said
    *shown, last = said.decode().split("\r\x1b[2K")
    assert "1 of 4 (25 %)  page 1" in shown
    assert "queued → running → succeeded" in last


def test_a_program_gets_the_progress_with_the_document_only(onward, app, folder):
    (folder / "go").touch()
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("  worker ")
        ran = onward("enqueue", "export", "go=go", "--wait", "--json")
    assert (ran.code, ran.err) == (0, "")
    progress = json.loads(ran.out)["progress"]
    assert (progress["done"], progress["total"], progress["fraction"]) == (4, 4, 1.0)
