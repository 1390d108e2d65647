"""What is kept of an error: without secrets, of a bounded size, whatever the error is."""

from __future__ import annotations

import msgspec
import pytest

from onward.core.failures.classify import classify, describe
from onward.core.failures.handler_errors import Unrecoverable
from onward.core.secrets.patterns import MASK
from onward.core.secrets.redaction import REDACTION
from onward.core.work.error_record import ErrorRecord, sanitise
from onward.core.work.lifecycle import Failed

SECRET = "correct-horse-battery-staple"
HIDE = REDACTION.hider({"password": SECRET})


@pytest.mark.parametrize("before", range(9_960, 10_005, 5))
def test_half_a_secret_is_not_left_where_a_message_is_cut(before):  # S4-44
    told = describe(ValueError("x" * before + SECRET), HIDE).message or ""
    assert len(told) <= 10_000
    assert "corr" not in told


@pytest.mark.parametrize("shrinks", ["", "-----BEGIN PRIVATE KEY-----" + "A" * 195_000])
def test_a_very_long_message_is_read_only_as_far_as_can_be_shown(shrinks):
    told = describe(ValueError(f"{shrinks:<199980}{SECRET}{'y' * 1_000_000}"), HIDE).message or ""
    assert "corr" not in told
    assert len(told) <= 10_000


def test_hints_and_links_are_bounded_and_hidden():
    failed = classify(Unrecoverable("x", hint=SECRET + "h" * 50_000, link=f"https://a/?b={SECRET}"), HIDE)
    assert isinstance(failed, Failed)
    error = ErrorRecord.of(failed.error)
    assert str(error.hint).startswith(MASK)
    assert len(str(error.hint)) <= 10_000
    assert error.link == f"https://a/?b={MASK}"


def test_what_is_no_json_is_made_json_before_it_is_looked_at():
    class Odd:
        def __repr__(self) -> str:
            return f"<Odd {SECRET} password=abc>"

    error = ErrorRecord.of({"about": Odd(), "list": (SECRET, b"token=abc")})
    kept = sanitise(error, {"token": SECRET}, REDACTION)
    assert SECRET not in repr(kept)
    assert "abc" not in repr(kept)
    assert kept.detail["list"] == [MASK, f"token={MASK}"]


@pytest.mark.parametrize(
    ("error", "record"),
    [
        ("boom", ErrorRecord(message="boom")),
        (ValueError("boom"), ErrorRecord("ValueError", "boom")),
        ({"error_class": "E", "message": "boom", "status": 404}, ErrorRecord("E", "boom", status=404)),
        ({"message": None, "row": 7}, ErrorRecord(detail={"row": 7})),
        ({"message": 5, "status": "404", "repeats": True}, None),
        ({"detail": {"row": 7}, "column": 8}, ErrorRecord(detail={"row": 7, "column": 8})),
        (ErrorRecord("E"), ErrorRecord("E")),
    ],
)
def test_every_form_of_an_error_becomes_one_record(error, record):
    # What does not fit its field is kept beside the fields.
    assert ErrorRecord.of(error) == (record or ErrorRecord(detail=error))


@pytest.mark.parametrize(
    "text",
    ["{}", "[1]", "null", "7", '"boom"', "{", "", "\x00", '{"detail": 7}', '{"repeats": 1e30, "new": [1]}'],
)
def test_an_error_that_another_version_has_stored_can_be_read(text):
    record = ErrorRecord.read(text)
    assert ErrorRecord.of(record.facts()) == record
    assert record.repeats is None


def test_a_record_is_stored_without_the_fields_that_are_not_known():
    record = ErrorRecord("E", "boom", detail={"row": 7})
    assert record.facts() == {"error_class": "E", "message": "boom", "detail": {"row": 7}}
    assert msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord) == record


def test_what_a_handler_adds_to_its_error_is_bounded_and_hidden_too():
    error = ErrorRecord("E", "x", detail={"page": SECRET + "p" * 50_000, "password": "abc", "deep": [SECRET]})
    kept = sanitise(error, {"password": SECRET}, REDACTION)
    assert (kept.error_class, kept.message) == ("E", "x")
    assert str(kept.detail["page"]).startswith(MASK)
    assert len(str(kept.detail["page"])) <= 20_000
    assert (kept.detail["password"], kept.detail["deep"]) == (MASK, [MASK])


def test_a_detail_of_any_size_leaves_the_class_and_the_message():
    kept = sanitise(ErrorRecord("E", "x", detail={"rows": list(range(1_000_000))}), {}, REDACTION)
    assert (kept.error_class, kept.message) == ("E", "x")
    assert len(msgspec.json.encode(kept)) < 1_100_000
