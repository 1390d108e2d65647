"""Every code that can be found is in the guide, with what it means and what to do; and no other is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import onward
from onward.cli.main import _COMMANDS

FOLDER = Path(onward.__file__).parent / "core" / "upkeep"
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "doctor.md"
RULES = [*sorted(FOLDER.glob("*findings.py")), FOLDER / "health.py", FOLDER / "explanation.py"]
MAKERS = {"fine", "found", "problem", "warning"}


def calls() -> list[ast.Call]:
    """Every place where a rule makes a finding."""
    return [
        call
        for path in RULES
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in MAKERS
    ]


def text_of(node: ast.expr) -> str:
    """The text of a literal, with what is put into it left out."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return str(node.value) if isinstance(node, ast.Constant) else ""


def test_every_code_is_in_the_table_of_the_guide():
    listed = re.findall(r"^\| `(\w+)` \| \S.* \| \S.* \|$", GUIDE.read_text(), re.MULTILINE)
    made = {text_of(call.args[0]) for call in calls()}
    assert len(made) > 40
    assert sorted(listed) == sorted(made)


def test_every_command_that_a_remedy_names_exists():
    named = {
        word
        for call in calls()
        for argument in call.args
        for part in ast.walk(argument)
        if isinstance(part, ast.expr)
        for word in re.findall(r"^onward ([\w-]+)", text_of(part))
    }
    assert {"gate", "queues", "worker", "tick", "dead", "breakers", "migrate"} <= named
    assert named <= set(_COMMANDS)
