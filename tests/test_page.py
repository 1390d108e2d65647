"""Pages and their cursors."""

from __future__ import annotations

import pytest

from onward.core.bulk import Bulk, Changed
from onward.core.page import Page, make_cursor, read_cursor
from onward.core.plain import plain
from onward.errors import InvalidSetting


def test_a_page_is_read_like_a_sequence():
    page = Page(["a", "b", "c"], make_cursor("letters", "c"))
    assert list(page) == ["a", "b", "c"]
    assert (len(page), page[0], page[1:]) == (3, "a", ["b", "c"])
    assert not Page([])


def test_a_page_is_shown_with_its_fields():
    assert plain(Page([1, 2])) == {"items": [1, 2], "next_cursor": None, "searched_to": None}


def test_a_cursor_keeps_its_position():
    cursor = make_cursor("keys", "acme", "", "k/é", -5)
    assert cursor.isascii()
    assert read_cursor("keys", cursor, str, str, str, int) == ["acme", "", "k/é", -5]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "é",
        "A" * 5000,
        7,
        None,
        make_cursor("audit", 3),
        make_cursor("jobs"),
        make_cursor("jobs", "3"),
        make_cursor("jobs", True),
        make_cursor("jobs", 3, 4),
        make_cursor("jobs", 1 << 63),
        "e30",
        "W10",
    ],
)
def test_a_cursor_that_the_listing_did_not_make_is_refused(cursor):
    with pytest.raises(InvalidSetting, match="give the next_cursor of a page of the same listing"):
        read_cursor("jobs", cursor, int)


def test_a_cursor_has_no_nul():
    with pytest.raises(InvalidSetting):
        read_cursor("jobs", make_cursor("jobs", "a\0"), str)


def test_bulks_add_up_and_continue_where_the_last_one_stopped():
    first = Bulk(found=3, done=2, pending=1, refused={"a": "no"}, next_cursor="x")
    assert first.joined(Bulk(found=1, done=1)) == Bulk(found=4, done=3, pending=1, refused={"a": "no"})


def test_a_change_is_true_in_a_condition():
    assert Changed(changed=True)
    assert not Changed(changed=False)
