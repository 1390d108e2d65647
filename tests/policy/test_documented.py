"""The tables of the guides have a row for each setting, field, state and reason, with its default."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from onward import Category, Onward, RetryPolicy
from onward.core.jobs.filters import ShownState
from onward.core.policy.settings import SettingOptions

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table that has this heading, by the name in their first cell."""
    lines = iter((GUIDE / page).read_text().splitlines())
    assert any(line.startswith(f"| {heading} |") for line in lines), f"{page} has no table of {heading}"
    next(lines)
    rows: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        first, *rest = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        rows[first.strip("`")] = rest
    return rows


def test_the_table_of_states_has_every_state():  # R1
    schema = get_args(ShownState)[1].extra_json_schema
    assert set(rows_of("jobs.md", "state")) == set(schema["enum"])


def test_the_table_of_settings_has_every_argument_of_onward():
    arguments = {name for name in inspect.signature(Onward).parameters if name != "settings"}
    assert set(rows_of("contract.md", "setting | meaning")) == arguments | set(SettingOptions.__annotations__)


@pytest.mark.parametrize(
    ("documented", "page"),
    [(RetryPolicy, "failures.md"), (Category, "contract.md")],
    ids=["retry", "category"],
)
def test_the_table_of_a_policy_has_every_field_with_its_default(documented, page):
    rows = rows_of(page, "field | meaning | default")
    fields = {field.name: field.default for field in dataclasses.fields(documented)}
    assert set(rows) == set(fields)
    for name, default in fields.items():
        shown = rows[name][-1]
        if default is dataclasses.MISSING:
            assert shown == "must be given"
        elif shown.startswith("`"):
            assert shown.strip("`").replace('"', "'") == repr(default), name
        else:
            assert name in {"retry", "scheduling", "best_effort", "max_payload_bytes"}, name


def test_the_table_of_deaths_has_every_reason_that_the_code_gives():
    text = "\n".join(path.read_text() for path in (ROOT / "src" / "onward").rglob("*.py"))
    given = set(re.findall(r"\b_die\(\w+, \"(\w+)\"", text))
    given |= set(re.findall(r"\breason=\"([a-z_]+)\"", text))
    given |= set(re.findall(r"_refused\(.*\"([a-z_]+)\"\)", text))
    given |= set(re.findall(r"\breason = \"(\w+)\" if .* else \"(\w+)\"", text)[0])
    given |= set(re.findall(r"\brule = \"(invalid_arguments|deadline_passed|not_authorised)\"", text))
    assert set(rows_of("dead-letters.md", "reason")) == given


def test_no_application_and_no_document_of_others_is_named_in_the_library_or_its_guides():  # R5
    named = re.compile(r"atlas|harmonyk|hubspot|category=.booking|the specification", re.IGNORECASE)
    pages = [*(ROOT / "src" / "onward").rglob("*.py"), *(ROOT / "src" / "onward").rglob("*.sql")]
    pages += [*GUIDE.glob("*.md"), ROOT / "README.md"]
    assert [page.name for page in pages if named.search(page.read_text())] == []
