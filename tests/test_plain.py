"""One encoder makes the JSON of everything that Onward prints for programs."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, NamedTuple
from uuid import UUID

import msgspec
import pytest

import onward
from onward.core.plain import plain, plain_time
from onward.core.secrets.redaction import Redaction

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
CLI = Path(onward.__file__).parent / "cli"


class Colour(StrEnum):
    RED = "red"


class Seen(msgspec.Struct, frozen=True):
    HIDDEN: ClassVar = frozenset({"secret"})
    DERIVED: ClassVar = ("twice",)

    count: int
    secret: str = "hush"

    @property
    def twice(self) -> int:
        return 2 * self.count


@dataclass(frozen=True)
class Span:
    begin: datetime
    length: timedelta


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (Colour.RED, "red"),
        (timedelta(minutes=1, milliseconds=500), 60.5),
        (date(2026, 1, 5), "2026-01-05"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Pair(1, 2), {"left": 1, "right": 2}),
        ((1, (2, 3)), [1, [2, 3]]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1: "x", None: "y", Colour.RED: "z"}, {"1": "x", "null": "y", "red": "z"}),
        (Seen(2), {"count": 2, "twice": 4}),
        ([Seen(1)], [{"count": 1, "twice": 2}]),
        (Span(NOON, timedelta(hours=1)), {"begin": "2026-01-05T12:00:00.000000Z", "length": 3600.0}),
    ],
)
def test_a_value_has_one_form(value, shown):
    assert plain(value) == shown
    assert type(plain(value)) is type(shown)


def test_a_time_of_another_zone_is_shown_in_utc():
    at = datetime(2026, 1, 5, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    assert plain_time(at) == "2026-01-05T10:00:00.000007Z"


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(TypeError, match="no time zone"):
        plain(NOON.replace(tzinfo=None))


@pytest.mark.parametrize("value", [object(), b"bytes", {(1, 2): "x"}, 1j])
def test_what_json_can_not_hold_is_refused(value):
    with pytest.raises(TypeError, match="JSON"):
        plain(value)


def test_secrets_are_hidden_wherever_they_stand():
    shown = plain({"jobs": [{"payload": {"password": "hunter2", "to": "ada"}}]}, Redaction())
    assert isinstance(shown, Mapping)
    assert shown["jobs"][0]["payload"]["to"] == "ada"
    assert "hunter2" not in repr(shown)


def test_no_command_encodes_json_by_itself():
    calls = [
        f"{path.relative_to(CLI)}:{node.lineno}"
        for path in sorted(CLI.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (called(node) in {"to_builtins", "isoformat"} or (called(node) == "echo" and prints_json(node)))
    ]
    assert calls == []


def called(node: ast.AST) -> str | None:
    """The name of the method that is called, whatever its object."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def prints_json(echo: ast.Call) -> bool:
    return any(called(inner) == "dumps" for argument in echo.args for inner in ast.walk(argument))
