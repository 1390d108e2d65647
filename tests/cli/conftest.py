"""What the tests of the command line share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from onward.cli.main import main


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without settings from outside and without modules of other tests."""
    for name in ("ONWARD_URL", "ONWARD_APP", "ONWARD_NAME"):
        # Set first, so that what a command sets is undone too.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in sys.modules if name in {"app", "jobs", "shop", "crm"}]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def onward(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return Ran(int(ended.value.code or 0), *capsys.readouterr())

    return run
