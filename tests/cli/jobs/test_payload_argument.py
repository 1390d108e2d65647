"""Words of the command line become the arguments that a handler takes."""

import io
import sys
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from onward.cli.jobs.payload_argument import read_payload, words_to_payload
from onward.errors import InvalidSetting


class Colour(Enum):
    RED = "red"
    ONE = "1"


def handler(
    *,
    number: int,
    text: str,
    maybe: str | None,
    either: int | str,
    ids: list[UUID],
    colour: Colour,
    free: Any,
    ratio: float = 0.5,
    sure: bool = False,
) -> None: ...


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("number=42", 42),
        ("number=abc", "abc"),
        ("text=42", "42"),
        ("text=true", "true"),
        ("text=null", "null"),
        ("text=ada@example.com", "ada@example.com"),
        ("text=a=b", "a=b"),
        ("text=", ""),
        ('text="quoted"', "quoted"),
        ('text={"a":1}', '{"a":1}'),
        ("maybe=null", None),
        ("maybe=7", "7"),
        ("either=7", 7),
        ("either=seven", "seven"),
        (
            'ids=["6f1c8d1e-3f6b-4c53-9a3e-111111111111"]',
            ["6f1c8d1e-3f6b-4c53-9a3e-111111111111"],
        ),
        ("colour=red", "red"),
        ("colour=1", "1"),
        ("free=[1,2]", [1, 2]),
        ("free=text", "text"),
        ("ratio=1", 1),
        ("sure=true", True),
        ("unknown=7", 7),
    ],
)
def test_a_value_is_json_where_the_handler_takes_it_so_and_text_elsewhere(word, value):
    [given] = words_to_payload([word], handler).values()
    assert given == value
    assert type(given) is type(value)


def test_without_a_handler_what_looks_like_json_is_json():
    words = ["a=1", "b=007", "c=null", "d=x", 'e={"f":[]}']
    assert words_to_payload(words, None) == {"a": 1, "b": "007", "c": None, "d": "x", "e": {"f": []}}


@pytest.mark.parametrize("words", [["a"], ["=1"], ["a=1", "a=2"]])
def test_a_word_that_is_no_argument_is_refused(words):
    with pytest.raises(InvalidSetting, match=r"give key=value|appears twice"):
        words_to_payload(words, None)


def test_a_whole_payload_comes_as_text_from_a_file_or_from_the_standard_input(tmp_path, monkeypatch):
    (tmp_path / "payload.json").write_text('{"a": [1]}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 2}')))
    assert read_payload('{"c": 3}') == {"c": 3}
    assert read_payload(f"@{tmp_path}/payload.json") == {"a": [1]}
    assert read_payload("-") == {"b": 2}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "--payload is not JSON"),
        ("[]", "is a list; give a JSON object"),
        ("@nonesuch", "can't read nonesuch"),
    ],
)
def test_a_payload_that_is_no_object_is_refused(folder, source, message):
    with pytest.raises(InvalidSetting, match=message):
        read_payload(source)
