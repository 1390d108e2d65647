"""The code keeps the shape that it promises: small files, small functions, documented names, no leftovers."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import onward
from onward import errors, results

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "onward"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_MODULES = 14
MAX_SHARED_CLASS_NAMES = 5
MAX_ATTRIBUTES = 25

# Each entry is `path` or `path:function`, with the reason why it may be larger.
LARGER_WITH_REASON: dict[str, str] = {}

# Private names of the worker that tests may use, with the reason why.
REACHES_WITH_REASON = {
    "ctx._run": "the run behind the Context of a handler, which has a private name that the worker uses too",
}

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
def test_a_module_says_its_purpose(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "a module starts with one sentence of purpose"


PUBLIC = [(module, name) for module in (onward, results, errors) for name in sorted(module.__all__)]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda one: getattr(one, "__name__", one))
def test_a_public_name_exists_and_is_documented_in_one_line(module, name):
    value = getattr(module, name)
    if not isinstance(value, type) and not callable(value):
        return
    first, *rest = (value.__doc__ or "").strip().splitlines()
    assert first.endswith(".")
    assert not rest or not rest[0].strip(), "a blank line ends the one-line summary"


def test_a_name_is_public_in_one_place():
    assert set(results.__all__).isdisjoint({*onward.__all__, *errors.__all__})
    caught = set(onward.__all__) & set(errors.__all__)
    assert all(getattr(errors, name) is getattr(onward, name) for name in caught)
    assert len(onward.__all__) <= 60, "what is only returned belongs in onward.results"


def test_the_public_names_are_listed_and_imported_only_when_they_are_used():
    script = (
        "import sys, onward; assert not any(name.startswith('onward.') for name in sys.modules); "
        "assert {'Onward', 'Context', 'NewJob'} <= set(dir(onward)); from onward import Onward"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_has_a_name_that_tells(path):
    assert VAGUE_NAMES.isdisjoint(path.relative_to(SOURCE).with_suffix("").parts)


ROOMS = ("jobs", "work", "flows", "schedules", "limits", "failures", "records", "upkeep")
BOUND = {"now", "actor_type", "actor_id"}
WRITTEN = [path for path in MODULES if not is_generated(path)]


def room_of(path: Path) -> str:
    """The room of a module, or else its folder; all of the worker is the room `work`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    room = next((part for part in parts if part in ROOMS), None)
    return room or ("work" if parts[0] == "worker" else "/".join(parts[:-1]))


def bound_parameters() -> list[str]:
    """Parameters of operations and of public methods of clients that are bound, not passed."""
    return [
        f"{relative(path)}:{function.name}({argument.arg})"
        for path in WRITTEN
        if path.relative_to(SOURCE).parts[0] in {"operations", "clients"}
        for function in functions(path)
        if path.relative_to(SOURCE).parts[0] == "operations" or not function.name.startswith("_")
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.arg in BOUND
    ]


def crowded_folders() -> list[str]:
    counts = Counter(path.parent for path in WRITTEN if path.name != "__init__.py")
    return [relative(folder) for folder, count in counts.items() if count > MAX_MODULES]


def names_in_several_rooms() -> list[str]:
    rooms: dict[str, set[str]] = {}
    for path in WRITTEN:
        if not path.stem.startswith("__"):
            rooms.setdefault(path.stem, set()).add(room_of(path))
    return [name for name, found in rooms.items() if len(found) > 1]


def class_names_in_several_files() -> list[str]:
    files: dict[str, set[Path]] = {}
    for path in WRITTEN:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, set()).add(path)
    return [name for name, found in files.items() if len(found) > 1]


def own_attributes(node: ast.ClassDef) -> set[str]:
    """The distinct names that a class uses of itself, as `self.name`: its fields and its methods."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self"
    }


def attribute_counts() -> dict[str, int]:
    """The largest number of attributes under each name of a class."""
    counts: dict[str, int] = {}
    for path in WRITTEN:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                counts[node.name] = max(counts.get(node.name, 0), len(own_attributes(node)))
    return counts


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names_of_the_worker() -> set[str]:
    """The private methods, attributes and constants of `onward.worker`."""
    names: set[str] = set()
    for path in (SOURCE / "worker").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.add(name)
                case (
                    ast.Attribute(value=ast.Name(id="self"), attr=name)
                    | ast.Assign(targets=[ast.Name(id=name)])
                ):
                    names.add(name)
    return {name for name in names if is_private(name)}


def reaches_into_the_worker() -> list[str]:
    """Where a test that knows the worker uses or replaces one of its private names."""
    private = private_names_of_the_worker()
    found: list[str] = []
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if "onward.worker" not in text and ".parts" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    continue
                case ast.Attribute(attr=name) if name in private:
                    found.append(f"{relative(path)}:{node.lineno} {ast.unparse(node)}")
                case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=arguments):
                    constants = [each.value for each in arguments[:2] if isinstance(each, ast.Constant)]
                    replaced = [str(each) for each in constants if str(each).rpartition(".")[2] in private]
                    found += [f"{relative(path)}:{node.lineno} {name}" for name in replaced]
    return [one for one in found if one.partition(" ")[2] not in REACHES_WITH_REASON]


def wide_classes() -> list[str]:
    return [f"{name}: {count}" for name, count in attribute_counts().items() if count > MAX_ATTRIBUTES]


@pytest.mark.parametrize(
    "count",
    [bound_parameters, crowded_folders, names_in_several_rooms, wide_classes, reaches_into_the_worker],
)
def test_the_floor_plan_holds(count, capsys):
    found = count()
    with capsys.disabled():
        print(f"{count.__name__}: {len(found)}")
    assert found == []


def test_few_classes_share_a_name(capsys):
    found = class_names_in_several_files()
    with capsys.disabled():
        print(f"class_names_in_several_files: {len(found)}")
    assert len(found) < MAX_SHARED_CLASS_NAMES, found


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
