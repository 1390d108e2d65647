"""Fingerprints: what is the same failure, and how often it came in a row."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward.core.failures.fingerprint import fingerprint, normalised, recognised
from onward.core.work.error_record import ErrorRecord

SAME = [
    ("user 42 not found", "user 7 not found"),
    ("took 1.5 s, not 3", "took 200 s, not -4"),
    ("no job 019b7c2e-9f00-7000-8000-000000000001", "no job 019b7c2e-9f00-7000-8000-0000000000ff"),
    ("object at 0x7f3a2b1c", "object at 0x1"),
    ("commit deadbeef01 is gone", "commit 0123456789abcdef0123 is gone"),
    ("no column 'a'", "no column 'total amount'"),
    ('no column "a"', 'no column "b c"'),
    ("can't open `x`; don't ask", "can't open `y z`; don't ask"),
    ("ada@example.com bounced", "bob.b+x@mail.example.org bounced"),
    ("can't read /tmp/a/b.txt", "can't read /var/spool/mail-7/c"),
    ("can't read C:\\a\\b", "can't read D:\\x"),
    ("at 2026-03-01T10:00:00Z", "at 2026-12-31 23:59:59.123+01:00"),
    ("at 10:00:01", "at 23:59:59.9"),
    ("GET https://a.example/x?y=1 failed", "GET http://b.example/ failed"),
    ("cus_NffrFeUfNV2Hib is unknown", "cus_AbCdEfGhIjK9Lmn is unknown"),
    ("too\n  many\tblanks", "too many blanks"),
    ("refused by 10.0.0.1:5432", "refused by 192.168.7.20:6543"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_messages_that_differ_in_particulars_are_the_same(one, other):
    # R8
    assert normalised(one) == normalised(other)
    assert fingerprint("t", ErrorRecord("E", one)) == fingerprint("t", ErrorRecord("E", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user not found", "order not found"),
        ("can't open the door", "can't open the window"),
        ("read and/or write", "read or write"),
        ("", "x"),
    ],
)
def test_messages_that_say_something_else_are_others(one, other):
    assert normalised(one) != normalised(other)


def test_words_stay_readable():
    assert normalised("mail to 'ada' at 10:00:01 failed after 3 of 10") == (
        "mail to <text> at <time> failed after <n> of <n>"
    )
    assert normalised("it's what I/O and application/json don't say") == (
        "it's what I/O and application/json don't say"
    )


def test_an_http_status_is_no_particular_even_in_quotes():
    message = "Client error '401 Unauthorized' for url 'https://crm.example'"
    refused, forbidden = (ErrorRecord("HTTPStatusError", message, status=status) for status in (401, 403))
    assert fingerprint("t", refused) == fingerprint("t", replace(refused))
    assert fingerprint("t", refused) != fingerprint("t", forbidden)


def test_type_class_and_message_make_the_fingerprint():
    error = ErrorRecord("E", "m")
    mine = fingerprint("t", error)
    assert re.fullmatch("[0-9a-f]{12}", mine)
    assert mine == fingerprint("t", replace(error, traceback="x", reason="r", hint="h"))
    others = [
        fingerprint("u", error),
        fingerprint("t", replace(error, error_class="F")),
        fingerprint("t", ErrorRecord()),
    ]
    assert len({mine, *others}) == 4


@given(st.one_of(st.text(), st.none(), st.integers(), st.lists(st.text())), st.text())
def test_whatever_the_error_holds_it_has_a_fingerprint(message, name):
    error = ErrorRecord.of({"error_class": name, "message": message})
    assert len(fingerprint(name, error)) == 12
    assert len(normalised(error.message)) <= 300


@pytest.mark.parametrize(
    "piece", ["a", "1", "a1-", "'", "/a", "1:", "a@", "0x", "deadbeef", "\\", "\ud800", "a.b/"]
)
def test_a_hostile_message_takes_no_time(piece):
    began = time.process_time()
    normalised(piece * 100_000)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("last", "repeats"),
    [
        (None, 1),
        ("another", 1),
        ("none", 1),
        ("same", 4),
        ("spoilt", 1),
        ("no object", 1),
    ],
)
def test_failures_in_a_row_are_counted_while_they_are_the_same(last, repeats):
    error = ErrorRecord("E", "no 1")
    mine = fingerprint("t", error)
    texts = {
        "same": f'{{"fingerprint": "{mine}", "repeats": 3}}',
        "spoilt": f'{{"fingerprint": "{mine}", "repeats": "x"}}',
        "no object": "[1]",
        "another": '{"fingerprint": "of another"}',
        "none": '{"repeats": 3}',
    }
    before = None if last is None else ErrorRecord.read(texts[last])
    assert recognised("t", error, before) == replace(error, fingerprint=mine, repeats=repeats)
