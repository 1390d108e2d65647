"""Text fields are refused by name before any SQL runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.inputs.fields import LONGEST, check_text, check_texts, is_traceparent
from onward.errors import InvalidJob

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("name", sorted(LONGEST.keys() - {"traceparent"}))
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "is empty"),
        ("a\0b", "NUL character at 1"),
        ("a\ud800b", "surrogate pair at 1"),
        (7, "not text"),
    ],
)
def test_text_that_cannot_be_stored_is_refused_by_the_name_of_its_field(name, value, complaint):
    with pytest.raises(InvalidJob, match=f"^{name} .*{complaint}"):
        check_texts({"job_type": "fine", name: value})


@pytest.mark.parametrize("name", sorted(LONGEST.keys() - {"traceparent"}))
def test_the_limit_counts_bytes_of_utf_8(name):
    longest = LONGEST[name]
    check_texts({name: "a" * longest, "queue": "q:default"})
    check_texts({name: "é" * (longest // 2)})
    for value in ("a" * (longest + 1), "é" * (longest // 2 + 1)):
        with pytest.raises(InvalidJob, match=f"{name} .* the most is {longest}"):
            check_texts({name: value})


def test_key_org_and_project_fit_one_index_entry():
    assert LONGEST["key"] + LONGEST["org_id"] + LONGEST["project_id"] < 2700


def test_absent_fields_are_fine():
    check_texts({})
    check_texts({"org_id": None, "traceparent": None})
    check_texts({"job_type": "invoice", "org_id": None, "traceparent": TRACEPARENT})


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        TRACEPARENT.upper(),
        TRACEPARENT + "-",
        TRACEPARENT + "\n",
        TRACEPARENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + TRACEPARENT[35:],
        TRACEPARENT[:36] + "0" * 16 + "-01",
        TRACEPARENT * 200,
    ],
)
def test_a_traceparent_that_is_no_trace_context_is_refused(value):  # S4-23
    assert not is_traceparent(value)
    with pytest.raises(InvalidJob, match="traceparent"):
        check_texts({"traceparent": value})


@given(st.text(st.characters() | st.sampled_from("\0\ud800"), max_size=220))
def test_all_at_once_refuses_what_one_by_one_refuses(value):
    def refuses(check) -> bool:
        try:
            check()
        except InvalidJob:
            return True
        return False

    alone = refuses(lambda: check_text("queue", value, longest=200))
    assert refuses(lambda: check_texts({"job_type": "x", "queue": value})) == alone


def test_a_message_shows_only_the_start_of_a_long_value():
    with pytest.raises(InvalidJob) as caught:
        check_text("org_id", "x" * 100_000, longest=255)
    assert len(str(caught.value)) < 200
