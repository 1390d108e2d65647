"""The prose of the source names its subjects and says what is returned or done."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "onward"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "sync" not in path.relative_to(SOURCE).parts)
STATEMENTS = sorted(SOURCE.rglob("*.sql"))

OPENERS = re.compile(r"(Give|Tell|Say|Have|Name)s?\b")
BARE_SUBJECT = re.compile(
    r"(?:^|[.;:(]\s+|, )(?:[Ww]ho|[Ww]hoever|[Ss]omebody|[Nn]obody|[Ss]omeone)\b"
    r"|\bfor who\b|\bto whom\b|\bthose who\b|\bone who\b|\bso (?:many|long|much)\b(?! as)|Do the same"
)
NO_NAMES = {"told", "said", "asked", "given", "whole"}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield text


def comments(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield from (
            line.strip("- ") for line in path.read_text().splitlines() if line.strip().startswith("--")
        )
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_docstring_says_what_is_returned_or_done(path):
    assert [text for text in docstrings(path) if OPENERS.match(text)] == []


@pytest.mark.parametrize("path", [*MODULES, *STATEMENTS], ids=relative)
def test_a_sentence_names_its_subject_and_its_quantities(path):
    prose = [*comments(path), *(docstrings(path) if path.suffix == ".py" else ())]
    lines = [line.strip() for text in prose for line in text.splitlines()]
    assert [line for line in lines if BARE_SUBJECT.search(line)] == []


def messages(path: Path) -> Iterator[str]:
    """Yield the strings with several words that are no docstrings: errors, help and log lines."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield from [node.value] if " " in node.value else []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_message_names_its_subject_and_its_quantities(path):
    unnamed = re.compile(rf"{BARE_SUBJECT.pattern}|\b(?:nobody|somebody|someone|whoever)\b")
    assert [text for text in messages(path) if unnamed.search(text)] == []


def identifiers(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name.replace("whole_number", "integer")
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name.replace("whole_number", "integer")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_an_identifier_is_a_noun_or_a_verb_of_the_vocabulary(path):
    assert sorted(name for name in identifiers(path) if NO_NAMES & set(name.lower().split("_"))) == []
