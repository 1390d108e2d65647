"""Keys of effects, and the form in which results are remembered."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from onward import PayloadRejected
from onward.core.work.effect import payload_hash, plain
from onward.results import Effect

ID = "018f2d3c-0000-7000-8000-000000000001"
EFFECT = Effect(ID, "send", "once", "begun", payload_hash({"a": 1}), 0, None, 1, 1, None, None)


def test_a_key_never_changes_its_form():
    # What was begun before an upgrade is tried again after it.
    assert payload_hash({"a": 1}) == "015abd7f5cc57a2d"
    assert EFFECT.key == "a25ac965-2a56-5b15-8d18-4fb9696516a4"


def test_a_key_is_another_for_another_job_name_payload_and_generation():
    others: list[dict[str, Any]] = [
        {"job_id": "018f2d3c-0000-7000-8000-000000000002"},
        {"name": "sent"},
        {"payload_hash": payload_hash({"a": 2})},
        {"generation": 1},
    ]
    assert len({EFFECT.key, *(replace(EFFECT, **other).key for other in others)}) == 5
    assert replace(EFFECT, state="done", lease=5, attempt=7, result=1).key == EFFECT.key


def test_payloads_are_told_apart_by_what_is_in_them_and_not_by_its_order():
    assert payload_hash({"a": 1, "b": {"c": [1], "d": None}}) == payload_hash(
        {"b": {"d": None, "c": [1]}, "a": 1}
    )
    assert payload_hash({"a": [1, 2]}) != payload_hash({"a": [2, 1]})
    assert payload_hash({}) != payload_hash({"a": None})


@dataclass
class Receipt:
    number: int
    lines: tuple[str, ...]


def test_what_has_an_obvious_form_is_remembered_in_it():
    assert plain(Receipt(1, ("a",)), "r") == {"number": 1, "lines": ["a"]}
    assert plain({1: (2,)}, "r") == {"1": [2]}
    assert plain(None, "r") is None


def test_what_has_none_is_refused_with_its_place():
    with pytest.raises(PayloadRejected, match=r"r at \$.a: .* is an object"):
        plain({"a": object()}, "r")
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(PayloadRejected, match="contains itself"):
        plain(loop, "r")
