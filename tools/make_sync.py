"""Write the sync twin of each async source; with `--check`, only compare.

The async file is the one that people edit. Keywords are dropped by token, so prose that speaks of awaiting
stays whole; names are renamed everywhere, so docstrings speak of the twin's own classes.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TWINS = {
    "src/onward/client_async.py": "src/onward/client.py",
    "src/onward/clients/alerts_async.py": "src/onward/clients/alerts.py",
    "src/onward/clients/artifacts_async.py": "src/onward/clients/artifacts.py",
    "src/onward/clients/audit_async.py": "src/onward/clients/audit.py",
    "src/onward/clients/batches_async.py": "src/onward/clients/batches.py",
    "src/onward/clients/breakers_async.py": "src/onward/clients/breakers.py",
    "src/onward/clients/cancelling_async.py": "src/onward/clients/cancelling.py",
    "src/onward/clients/dead_async.py": "src/onward/clients/dead.py",
    "src/onward/clients/doctor_async.py": "src/onward/clients/doctor.py",
    "src/onward/clients/effects_async.py": "src/onward/clients/effects.py",
    "src/onward/clients/flows_async.py": "src/onward/clients/flows.py",
    "src/onward/clients/keys_async.py": "src/onward/clients/keys.py",
    "src/onward/clients/maintenance_async.py": "src/onward/clients/maintenance.py",
    "src/onward/clients/limits_async.py": "src/onward/clients/limits.py",
    "src/onward/clients/parts_async.py": "src/onward/clients/parts.py",
    "src/onward/clients/queues_async.py": "src/onward/clients/queues.py",
    "src/onward/clients/reach_async.py": "src/onward/clients/reach.py",
    "src/onward/clients/schedules_async.py": "src/onward/clients/schedules.py",
    "src/onward/clients/signals_async.py": "src/onward/clients/signals.py",
    "src/onward/clients/usage_async.py": "src/onward/clients/usage.py",
    "src/onward/clients/working_async.py": "src/onward/clients/working.py",
    "src/onward/handlers/transaction_async.py": "src/onward/handlers/transaction.py",
    "src/onward/stores/pool_async.py": "src/onward/stores/pool.py",
    "src/onward/stores/postgres_async.py": "src/onward/stores/postgres.py",
}

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
    sources = [source for source in TWINS if (ROOT / source).exists()]
    stale = [source for source in sources if not refresh(source, check)]
    for source in stale:
        print(f"{TWINS[source]} is stale: run `make fmt`", file=sys.stderr)
    return 1 if stale else 0


def refresh(source: str, check: bool) -> bool:
    """Write the twin of one source unless only checking; False when it is left stale."""
    target = ROOT / TWINS[source]
    text = HEADER.format(source=source) + to_sync((ROOT / source).read_text())
    text = tidy(text, TWINS[source])
    if target.exists() and target.read_text() == text:
        return True
    if not check:
        target.write_text(text)
        print(f"wrote {TWINS[source]}")
    return not check


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
