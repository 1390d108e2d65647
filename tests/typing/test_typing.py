"""mypy and pyright see a misspelt, missing or wrong argument, and nothing where all is right."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(__file__).parent / "samples"
TOOLS = Path(sys.executable).parent


def marked(sample: Path) -> set[int]:
    lines = enumerate(sample.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# error")}


def run(*command: str | Path) -> str:
    # Without the project's own settings, as at a user's.
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    ran = subprocess.run(
        command, cwd=SAMPLES, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    return ran.stdout


def mypy(sample: Path) -> dict[int, str]:
    cache = ROOT / ".mypy_cache" / "samples"
    said = run(
        TOOLS / "mypy", "--strict", "--config-file=", "--cache-dir", cache, "--no-error-summary", sample
    )
    return {int(line): text for line, text in re.findall(r"^[^:]+:(\d+): error: (.*)$", said, re.MULTILINE)}


def pyright(sample: Path) -> dict[int, str]:
    said = run(TOOLS / "basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", SAMPLES)
    return {
        found["range"]["start"]["line"] + 1: found["message"]
        for found in json.loads(said)["generalDiagnostics"]
        if found["severity"] == "error" and Path(found["file"]) == sample
    }


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_type_checker_reports_just_the_mistakes(check):
    sample = SAMPLES / "calls.py"
    reported = check(sample)
    expected = marked(sample)
    assert {line: text for line, text in reported.items() if line not in expected} == {}
    assert expected - reported.keys() == set()
