"""The demonstration runs and finds what it expects."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_demonstration_ends_with_the_counts_that_it_expects():
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.demo"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = re.findall(r"^(\w+) +(\d+) +(\d+)$", ran.stdout, re.MULTILINE)
    assert {state: (int(found), int(expected)) for state, found, expected in rows} == {
        "scheduled": (0, 0),
        "queued": (0, 0),
        "running": (0, 0),
        "blocked": (0, 0),
        "succeeded": (293, 293),
        "dead": (1, 1),
        "cancelled": (1, 1),
    }
    assert "rollback, so its job never existed" in ran.stdout
    assert "worker-2 came back with a result: refused" in ran.stdout
