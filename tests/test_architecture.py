"""The code keeps the shape that it promises: small files, small functions, documented names, no leftovers."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import onward

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "onward"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40

# Each entry is `path` or `path:function`, with the reason why it may be larger.
LARGER_WITH_REASON: dict[str, str] = {}

VAGUE_NAMES = {"base", "common", "helpers", "manager", "misc", "types", "utils"}

MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = ("src", "tests", "tools", "bench", "examples")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_generated(path: Path) -> bool:
    return path.read_text().startswith("# Generated from ")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def line_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def files_of_the_repository() -> list[Path]:
    """Every file that is, or is about to be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in files_of_the_repository():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def lines_matching(pattern: str, *, under: str = "") -> list[str]:
    """Where a pattern occurs, as `path:line`."""
    return [
        f"{relative(path)}:{number}"
        for path, text in texts()
        if relative(path).startswith(under)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_can_be_read_in_one_sitting(path):
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_FILE_LINES or is_generated(path) or relative(path) in LARGER_WITH_REASON


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_function_fits_on_a_screen(path):
    large = {
        f"{relative(path)}:{function.name}"
        for function in functions(path)
        if line_count(function) > MAX_FUNCTION_LINES
    }
    assert large - LARGER_WITH_REASON.keys() == set()


def test_no_exception_from_the_sizes_outlives_its_reason():
    files = {relative(path) for path in FILES}
    names = {f"{relative(path)}:{function.name}" for path in MODULES for function in functions(path)}
    assert LARGER_WITH_REASON.keys() <= files | names


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_says_its_purpose_and_what_is_public(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "a module starts with one sentence of purpose"
    if path.stem.startswith("_") and path.stem != "__init__":
        return
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    only_a_docstring = len(tree.body) == 1
    assert "__all__" in assigned or only_a_docstring


@pytest.mark.parametrize("name", sorted(onward.__all__))
def test_a_public_name_exists_and_is_documented_in_one_line(name):
    value = getattr(onward, name)
    if not isinstance(value, type) and not callable(value):
        return
    first, *rest = (value.__doc__ or "").strip().splitlines()
    assert first.endswith(".")
    assert not rest or not rest[0].strip(), "a blank line ends the one-line summary"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_has_a_name_that_tells(path):
    assert VAGUE_NAMES.isdisjoint(path.relative_to(SOURCE).with_suffix("").parts)


# The needles below are patterns that do not match themselves.


def test_nothing_is_left_to_do():
    assert lines_matching(r"\b(TO[D]O|FIX[M]E)\b") == []


def test_no_file_names_a_path_of_some_machine():
    assert lines_matching(r"(?<![\w.*})])/(work|root|home|Users)/") == []


def test_no_test_is_skipped():
    assert lines_matching(r"\b(mark|pytest)\.(skip|skipif|xfail|importorskip)\b", under="tests/") == []


def test_the_lock_names_no_registry():
    lock = (ROOT / "requirements-dev.lock").read_text()
    assert "://" not in lock
    assert not [line for line in lock.splitlines() if line.startswith("-")]
