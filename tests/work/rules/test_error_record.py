"""What is kept of an error: without secrets, of a bounded size, whatever the error is."""

from __future__ import annotations

import pytest

from onward.core.failures.classify import classify, describe
from onward.core.failures.handler_errors import Unrecoverable
from onward.core.secrets.patterns import MASK
from onward.core.secrets.redaction import REDACTION
from onward.core.work.error_record import sanitise
from onward.core.work.lifecycle import Failed

SECRET = "correct-horse-battery-staple"
HIDE = REDACTION.hider({"password": SECRET})


@pytest.mark.parametrize("before", range(9_960, 10_005, 5))
def test_half_a_secret_is_not_left_where_a_message_is_cut(before):  # S4-44
    told = describe(ValueError("x" * before + SECRET), HIDE)["message"]
    assert len(told) <= 10_000
    assert "corr" not in told


@pytest.mark.parametrize("shrinks", ["", "-----BEGIN PRIVATE KEY-----" + "A" * 195_000])
def test_a_very_long_message_is_read_only_as_far_as_can_be_shown(shrinks):
    told = describe(ValueError(f"{shrinks:<199980}{SECRET}{'y' * 1_000_000}"), HIDE)["message"]
    assert "corr" not in told
    assert len(told) <= 10_000


def test_hints_and_links_are_bounded_and_hidden():
    failed = classify(Unrecoverable("x", hint=SECRET + "h" * 50_000, link=f"https://a/?b={SECRET}"), HIDE)
    assert isinstance(failed, Failed)
    assert failed.error["hint"].startswith(MASK)
    assert len(failed.error["hint"]) <= 10_000
    assert failed.error["link"] == f"https://a/?b={MASK}"


def test_what_is_no_json_is_made_json_before_it_is_looked_at():
    class Odd:
        def __repr__(self) -> str:
            return f"<Odd {SECRET} password=abc>"

    kept = sanitise({"about": Odd(), "list": (SECRET, b"token=abc")}, {"token": SECRET}, REDACTION)
    assert SECRET not in repr(kept)
    assert "abc" not in repr(kept)
    assert kept["list"] == [MASK, f"token={MASK}"]
