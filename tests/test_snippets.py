"""What the documents show is true: every snippet runs, and every table is complete.

A `python` block is run; all blocks of a file share one process, in order, in an empty folder. After the
comment `<!-- test: postgres -->` the database `app@db/app` of a block stands for one of the test server.
A line that prints ends in a comment with what it prints. Snippets may leave connections open.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import onward.errors
from tests.postgres import fresh_database

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))

SHOWN_ONLY = {"console", "text", "sql"}
DATABASE_IN_TEXT = "://app@db/app"

BLOCK = re.compile(r"^(<!-- test: (\w+) -->\n)?```(.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")

# Each snippet keeps its place in the document, so that a traceback names the document's own line. In many
# documents attempts fail on purpose; any other warning is a mistake.
RUN_ALL = """
import json, logging, sys
logging.getLogger("onward.job").addHandler(logging.NullHandler())
space = {"__name__": "__main__"}
for path, line, text in json.load(sys.stdin):
    exec(compile("\\n" * line + text, path, "exec"), space)
"""


class Snippet(NamedTuple):
    language: str
    database: str | None
    line: int
    text: str


def snippets(document: Path) -> list[Snippet]:
    content = document.read_text()
    return [
        Snippet(found[3], found[2], content.count("\n", 0, found.start(3)) + 1, found[4])
        for found in BLOCK.finditer(content)
    ]


def named(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


@pytest.fixture
def database_url(postgres_server_url: str, worker_id: str) -> Iterator[str]:
    with fresh_database(postgres_server_url, f"onward_snippets_{worker_id}_{os.getpid()}") as url:
        yield url


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if snippets(path)], ids=named)
def test_every_snippet_runs_and_prints_what_it_says(document, tmp_path, request):
    blocks = [block for block in snippets(document) if block.language == "python"]
    there = ""
    if any(block.database for block in blocks):
        there = request.getfixturevalue("database_url").removeprefix("postgresql")
    program = [
        (named(document), line, text.replace(DATABASE_IN_TEXT, there) if database else text)
        for _, database, line, text in blocks
    ]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-c", RUN_ALL],
        input=json.dumps(program), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [output for block in blocks for output in PRINTED.findall(block.text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_a_block_is_run_or_says_that_it_is_not_python(document):
    found = snippets(document)
    assert document.read_text().count("```") == 2 * len(found), "a fence does not stand alone on its line"
    assert {block.language for block in found} <= {"python", *SHOWN_ONLY}
    assert {block.database for block in found} <= {None, "postgres"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_a_link_leads_somewhere(document):
    links = LINK.findall(document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_error_is_in_the_table_with_its_code():
    table = (ROOT / "docs" / "guide" / "errors.md").read_text()
    listed = re.findall(r"^\| (ON-\S+) \| `(\w+)` \| \S.* \| \S.* \|$", table, re.MULTILINE)
    assert sorted(listed) == sorted(
        (getattr(onward.errors, name).code, name) for name in onward.errors.__all__
    )


def test_every_error_is_public():
    defined = {name for name, value in vars(onward.errors).items() if isinstance(value, type)}
    assert sorted(defined) == onward.errors.__all__


def test_a_code_belongs_to_one_error():
    codes = [getattr(onward.errors, name).code for name in onward.errors.__all__]
    assert len(codes) == len(set(codes))


def test_decisions_are_numbered_without_gaps():
    assert [path.name[:5] for path in DECISIONS] == [f"{n:04}-" for n in range(1, len(DECISIONS) + 1)]


@pytest.mark.parametrize("decision", DECISIONS, ids=named)
def test_a_decision_says_its_context_choice_rejects_and_consequence(decision):
    headings = re.findall(r"^## (.+)$", decision.read_text(), re.MULTILINE)
    assert headings == ["Context", "Choice", "Rejected", "Consequence"]
    assert len(decision.read_text().splitlines()) <= 50, "a decision is one page"
