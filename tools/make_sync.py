"""Write the sync twin of each async source; with `--check`, only compare.

The async file is the one that people edit. Keywords are dropped by token, so prose that speaks of awaiting
stays whole; names are renamed everywhere, so docstrings speak of the twin's own classes.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PACKAGE = ROOT / "src"

# The folders whose async modules have twins, each in the `sync` folder beside it.
FOLDERS = ("src/onward/clients", "src/onward/handlers/context", "src/onward/stores/postgres")

HEADER = "# Generated from {source} by tools/make_sync.py. Edit that file instead.\n"

KEYWORDS = {"async", "await"}

NAMES = (
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\b(a)(close|iter|next)\b", r"\2"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAwaitable, ", ""),
    (r"Async(?=[A-Z])", ""),
    (r"(?<=\w)_async(?=_|\b)", ""),
    (r"\basync_(?=[a-z])", ""),
)

PROSE = (
    (r"\b([Aa])n async\b", r"\1 sync"),
    (r"\basync\b", "sync"),
    (r"\bAsync\b", "Sync"),
)

# Qualified, so that anything else of asyncio is refused instead of half translated.
MODULES = (
    (r"\bimport asyncio\b", "import time"),
    (r"\basyncio\.sleep\b", "time.sleep"),
)


def main() -> int:
    """Bring every twin up to date, or name the stale ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a twin is stale")
    check = parser.parse_args().check
    twins = find_twins()
    stale = [target for source, target in twins.items() if not refresh(source, target, check)]
    strays = find_strays(set(twins.values()))
    for path in (*stale, *strays):
        print(f"{relative(path)} is stale: run `make fmt`", file=sys.stderr)
    for path in () if check else strays:
        path.unlink()
    return 1 if check and (stale or strays) else 0


def find_twins() -> dict[Path, Path]:
    """Return each async source with the place of its twin.

    A source defines a class `AsyncName` and does not define its twin `Name` as well.
    """
    return {
        source: ROOT / folder / "sync" / source.relative_to(ROOT / folder)
        for folder in FOLDERS
        for source in sorted((ROOT / folder).rglob("*.py"))
        if "sync" not in source.parts and is_source(source.read_text())
    }


def is_source(text: str) -> bool:
    """Whether a module is written for async callers alone."""
    classes = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    twins = {name.removeprefix("Async") for name in classes if re.match("Async[A-Z]", name)}
    return bool(twins) and twins.isdisjoint(classes)


def find_strays(targets: set[Path]) -> list[Path]:
    """Return the generated files that have lost their source."""
    found = (path for folder in FOLDERS for path in (ROOT / folder / "sync").rglob("*.py"))
    return sorted(path for path in found if path not in targets and path.name != "__init__.py")


def refresh(source: Path, target: Path, check: bool) -> bool:
    """Write the twin of one source unless only checking; False when it is left stale."""
    text = HEADER.format(source=relative(source)) + to_sync(source.read_text())
    text = tidy(text, relative(target))
    if target.exists() and target.read_text() == text:
        return True
    if not check:
        write(target, text)
        print(f"wrote {relative(target)}")
    return not check


def write(target: Path, text: str) -> None:
    """Write a twin, and make its folder a package."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    package = target.parent / "__init__.py"
    if not package.exists():
        package.write_text('"""Generated sync twins; nothing here is written by hand."""\n')


def relative(path: Path) -> str:
    """Return a path as it is written in the repository."""
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    """Return the name by which a module is imported."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def to_sync(text: str) -> str:
    """Translate async Python into its sync twin, without formatting it."""
    lines = text.splitlines(keepends=True)
    # From the end, so that earlier positions stay true.
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.NAME and token.string in KEYWORDS:
            row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
            lines[row] = lines[row][:start] + lines[row][end:].removeprefix(" ")
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            replace(lines, token, substitute(token.string, PROSE))
    text = substitute("".join(lines), NAMES + MODULES)
    for source, target in find_twins().items():
        text = re.sub(rf"\b{re.escape(dotted(source))}\b(?=\s+import\b)", dotted(target), text)
    if left := re.search(r"^.*\basyncio\b.*$", text, re.MULTILINE):
        raise SystemExit(f"no sync twin is known for: {left[0].strip()}")
    return text


def replace(lines: list[str], token: tokenize.TokenInfo, string: str) -> None:
    """Put a string in the place of a token that may span lines."""
    (first, start), (last, end) = token.start, token.end
    lines[first - 1 : last] = [lines[first - 1][:start] + string + lines[last - 1][end:]]


def substitute(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Apply each pattern in turn."""
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def tidy(text: str, target: str) -> str:
    """Sort the imports and format as the repository does."""
    for command in (["check", "--select=I", "--fix-only", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={target}", "-"]
        done = subprocess.run(ruff, input=text, text=True, stdout=subprocess.PIPE, check=True, cwd=ROOT)
        text = done.stdout
    return text


if __name__ == "__main__":
    raise SystemExit(main())
