"""Edits of payloads: what a patch makes of one, and how what has changed is told."""

import json

import pytest

from onward.core.jobs.diff import MOST_CHANGES, diff, options_diff, patched
from onward.core.secrets.patterns import MASK
from onward.core.secrets.redaction import Redaction


@pytest.mark.parametrize(
    ("payload", "patch", "made"),
    [
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_a_patch_is_merged_as_rfc_7396_says(payload, patch, made):
    before = json.dumps(payload)
    assert patched(payload, patch) == made
    assert json.dumps(payload) == before, "what is patched is a copy"


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [{"path": "$.a", "before": 1, "after": 2}]),
        ({}, {"a": None}, [{"path": "$.a", "after": None}]),
        ({"a": None}, {}, [{"path": "$.a", "before": None}]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [{"path": "$.a[1].b", "before": 2, "after": 3}]),
        ({"a": [1]}, {"a": [1, 2]}, [{"path": "$.a[1]", "after": 2}]),
        ({"a": [1, {}]}, {"a": [1]}, [{"path": "$.a[1]", "before": {}}]),
        ({"a": {}}, {"a": []}, [{"path": "$.a", "before": {}, "after": []}]),
        ({"a b": 1}, {"a b": 2}, [{"path": '$["a b"]', "before": 1, "after": 2}]),
    ],
)  # fmt: skip
def test_what_differs_is_told_by_its_path(before, after, changes):
    # R8
    assert diff(before, after) == changes


def test_true_is_not_one_and_a_whole_number_is_not_a_float():
    assert diff({"a": True, "b": 1}, {"a": 1, "b": 1.0}) == [
        {"path": "$.a", "before": True, "after": 1},
        {"path": "$.b", "before": 1, "after": 1.0},
    ]


def test_a_diff_has_no_more_lines_than_it_may_and_says_how_many_are_missing():
    many = diff({}, {f"k{n}": n for n in range(MOST_CHANGES + 7)})
    assert len(many) == MOST_CHANGES + 1
    assert many[-1] == {"onward:cut": 7}
    assert len(diff({}, {f"k{n}": n for n in range(MOST_CHANGES)})) == MOST_CHANGES


def test_a_large_value_is_cut():
    [change] = diff({"a": "x" * 50_000}, {"a": 1})
    assert change["after"] == 1
    assert change["before"]["onward:cut"]["bytes"] > 50_000
    assert len(json.dumps(change)) < 1200


def test_secrets_are_in_no_diff_wherever_their_names_stand():
    # R25
    before = {"password": "hunter2-old", "login": {"api_key": ["first-old"]}, "note": "with hunter2-old"}
    after = {"password": "hunter2-new", "login": {"api_key": ["first-new"]}, "note": "with hunter2-new"}
    changes = diff(before, after)
    assert [change["path"] for change in changes] == ["$.login.api_key[0]", "$.note", "$.password"]
    assert (changes[2]["before"], changes[0]["after"]) == (MASK, MASK)
    assert not [word for word in ("hunter2", "first-") if word in json.dumps(changes)]


def test_the_names_that_an_application_calls_secret_are_hidden_too():
    redaction = Redaction(names=["pin_code"])
    [change] = diff({"pin_code": "4711-4711"}, {"pin_code": "0815-0815"}, redaction=redaction)
    assert change == {"path": "$.pin_code", "before": MASK, "after": MASK}


def test_options_are_told_by_their_names():
    before = {"queue": "a", "priority": 5, "max_attempts": 3}
    assert options_diff(before, {"queue": "b", "priority": 5}) == [
        {"path": "queue", "before": "a", "after": "b"}
    ]
