"""The demonstration ends by itself, shows what it promises, and checks its own counts."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMO = [sys.executable, "-W", "error", "-m", "examples.demo"]


def test_the_demonstration_ends_with_the_counts_that_it_expects():
    ran = subprocess.run(DEMO, cwd=ROOT, capture_output=True, text=True, timeout=25, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    rows = re.findall(
        r"^(\w+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +[\d.]+ s$", ran.stdout, re.MULTILINE
    )
    # Enqueued, succeeded, retried, dead, cancelled; what else was lost with the worker is chance.
    assert {job_type: tuple(map(int, numbers[:5])) for job_type, *numbers in rows} == {
        "send_mail": (300, 300, 0, 0, 0),
        "resize_image": (60, 60, 0, 0, 0),
        "seal_report": (12, 12, 0, 0, 0),
        "update_contact": (20, 20, 40, 0, 0),
        "renew_subscription": (1, 0, 0, 1, 0),
        "export_everything": (1, 0, 0, 0, 1),
        "convert_video": (1, 1, 1, 0, 0),
        "import_orders": (1, 1, 0, 0, 0),
        "confirm_booking": (1, 1, 0, 0, 0),
    }
    for line in (
        r"  booking 1: rollback, so its job never existed",
        r"  booking 2 again: its key gives the earlier job",
        r"  397/397 · \d+ jobs/s · 395 succeeded · 1 dead · 1 cancelled",
        r" +\S+ s  job\.deadlettered  Unrecoverable: the card of Ada was refused",
        r"  hint: ask the customer for another card",
        r" +\S+ s  job\.failed        ProcessDied: the process was killed by SIGKILL",
        r" +\S+ s  job\.failed        WorkerLost: .*",
        r"All as expected\.",
    ):
        assert re.search(f"^{line}$", ran.stdout, re.MULTILINE), (line, ran.stdout)
    assert "\x1b" not in ran.stdout


SHOW = """
import subprocess, sys
from examples import demo, demo_jobs
demo_jobs.send_mail.enqueue("ada@example.com")
with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
    demo.Display(process).watch(lambda: True)
    demo.Display(process).say("a line")
"""


@pytest.mark.parametrize(("no_color", "colour"), [("", "\x1b[32m{}\x1b[0m"), ("1", "{}")])
def test_a_terminal_shows_one_line_that_is_redrawn(tmp_path, no_color, colour):
    ours, theirs = pty.openpty()
    env = {**os.environ, "ONWARD_URL": f"sqlite:///{tmp_path}/onward.db", "NO_COLOR": no_color}
    env |= {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", SHOW], cwd=ROOT, env=env, stdout=theirs) as process:
        assert process.wait(20) == 0
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    bar = colour.format("") + "░" * 30
    assert shown == f"\r\x1b[2K  {bar} 0/1 · 0 jobs/s · 1 queued\r\x1b[2K  a line\r\n"


def test_a_demonstration_that_comes_out_otherwise_says_how_and_fails():
    spoilt = (
        "import sys; from examples import demo; demo.WORKER = 'worker nowhere:app'; sys.exit(demo.main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", spoilt], cwd=ROOT, capture_output=True, text=True, timeout=25, check=False
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    _, _, differs = ran.stdout.partition("\nNot as expected:\n")
    assert "send_mail: (300, 0, 0, 0, 0), 0 rescued; not (300, 300, 0, 0, 0)\n" in differs
    assert "the worker's exit code: 2\n" in differs
    assert 'there is no module "nowhere"' in differs
