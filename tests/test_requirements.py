"""Every code that a test or an example names has its line in docs/requirements.md, and the page is true."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"

# A letter and two digits may be a part of a quoted URL or of a word.
CODE = re.compile(r"(?<![\w%])(?:S[0-4]-\d+|R\d{1,2}|F\d\db?|A\d\d|I\d{1,2})(?![\w-])")
LINE = re.compile(rf"^\| ({CODE.pattern}) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"\[(\w+)\]")
TARGET = re.compile(r"^\[(\w+)\]: (\S+)$", re.MULTILINE)

# How many items each of the five origins has.
ITEMS = {"S0": 90, "S1": 34, "S2": 33, "S3": 45, "S4": 75}
RULINGS = 33


@cache
def named() -> dict[str, set[Path]]:
    """The codes that tests and examples name, each with the files that do."""
    found: dict[str, set[Path]] = {}
    for folder in ("tests", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for code in CODE.findall(path.read_text(encoding="utf-8")):
                found.setdefault(code, set()).add(path)
    return found


@cache
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@cache
def targets() -> dict[str, Path]:
    """The files of the page by the names of their links."""
    return {name: (PAGE.parent / target).resolve() for name, target in TARGET.findall(page())}


@cache
def shown_by() -> dict[str, str]:
    """The last column of the page, by code."""
    return {code: shown for code, _, shown in LINE.findall(page())}


def files(code: str) -> set[Path]:
    return {targets()[name] for name in LINK.findall(shown_by()[code])}


def test_every_item_and_every_ruling_has_one_line():
    codes = [code for code, _, _ in LINE.findall(page())]
    assert len(codes) == len(set(codes))
    expected = {f"{origin}-{number}" for origin, count in ITEMS.items() for number in range(1, count + 1)}
    expected |= {f"R{number}" for number in range(1, RULINGS + 1)}
    assert {code for code in codes if code[0] in "RS"} == expected


def test_every_code_that_is_named_is_explained():
    assert sorted(named().keys() - shown_by().keys()) == []


def test_every_path_exists_and_every_link_has_one():
    assert [str(path) for path in targets().values() if not path.is_file()] == []
    used = {name for shown in shown_by().values() for name in LINK.findall(shown)}
    assert used == targets().keys()


@pytest.mark.parametrize("code", sorted(shown_by()))
def test_an_item_is_open_or_shown_by_files_that_name_it(code):
    if shown_by()[code] == "open":
        assert code not in named(), "a test names it: say which"
        return
    assert files(code), "say which file shows it, or that it is open"
    if code in named():
        assert files(code) & named()[code], "none of the files names it"
    else:
        assert all(path.suffix == ".md" for path in files(code)), "the file that shows it must name it"
