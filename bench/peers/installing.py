"""Put the pinned peers into `.bench/`, once; their code is never part of this tree."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.children import ROOT

__all__ = ["NODE", "PYTHON", "install"]

HERE = Path(__file__).parent
HOME = ROOT / ".bench"
PYTHON = HOME / "python" / "bin" / "python"
NODE = HOME / "node"


def install(*, python: bool, node: bool) -> None:
    """Install what is asked for, unless exactly that is there already."""
    HOME.mkdir(exist_ok=True)
    if python:
        once(HERE / "requirements.txt", HOME / "python", install_python)
    if node:
        if shutil.which("npm") is None:
            raise SystemExit("bench-peers: graphile-worker and pg-boss need Node 20 or newer with npm")
        once(HERE / "package.json", NODE, install_node)
        # Beside their modules, because Node looks for those from the script's own folder.
        for script in HERE.glob("*.mjs"):
            shutil.copy(script, NODE)


def once(pins: Path, folder: Path, install_into: object) -> None:
    stamp = folder / ".installed"
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return
    print(f"installing {pins.name} into {folder.relative_to(ROOT)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    assert callable(install_into)
    install_into(pins, folder)
    stamp.write_text(wanted, encoding="ascii")


def install_python(pins: Path, folder: Path) -> None:
    venv.create(folder, with_pip=True)
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run(
        [PYTHON, "-m", "pip", "install", *quiet, "-r", pins], check=True, stderr=subprocess.DEVNULL
    )


def install_node(pins: Path, folder: Path) -> None:
    folder.mkdir()
    shutil.copy(pins, folder)
    words = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
