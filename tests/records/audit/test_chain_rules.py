"""The hash chain over the audit: tampering with any single row is found, and only that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onward.core.records.chain import (
    FIRST,
    PRUNED,
    RECORD,
    ChainCheck,
    ChainLink,
    Fault,
    Head,
    digest_of,
    digest_of_all,
    links,
)
from onward.errors import InvalidSetting

Pair = tuple[ChainLink, Sequence[Any] | None]

ROWS = [(seq, 1000 + seq, f"job.e{seq}", *["x"] * 8, 1, 1, "w", '{"n":1}', None) for seq in range(1, 9)]
ROWS = [(*row[:3], None, *row[3:-1]) for row in ROWS]
CHAIN = list(links(FIRST, ROWS))
HEAD = Head(CHAIN[-1].position, CHAIN[-1].link)


def intact() -> list[Pair]:
    return list(zip(CHAIN, ROWS, strict=True))


def walked(pairs: Sequence[Pair], *, head: Head = HEAD, kept: Head | None = None) -> list[Fault]:
    walk = ChainCheck(kept)
    found = list(walk.follow(pairs[:3]))
    found += walk.follow(pairs[3:])
    return [*found, *walk.end(head)]


def test_an_untouched_chain_is_intact():
    assert walked(intact()) == []
    assert walked(intact(), kept=HEAD) == []
    assert walked(intact(), kept=Head(3, CHAIN[2].link)) == []


@pytest.mark.parametrize("column", range(1, len(RECORD)), ids=RECORD[1:])
def test_an_edit_of_any_column_of_any_row_is_found(column):
    for at, link in enumerate(CHAIN):
        edited = list(ROWS[at])
        edited[column] = "forged"
        pairs = intact()
        pairs[at] = (link, edited)
        assert [(fault.what, fault.seq) for fault in walked(pairs)] == [("edited", link.seq)]


def test_a_removed_row_is_found():
    for at, (link, _) in enumerate(intact()):
        pairs = intact()
        pairs[at] = (link, None)
        assert [(fault.what, fault.seq) for fault in walked(pairs)] == [("removed", link.seq)]


def test_two_rows_that_were_swapped_are_found():
    for at in range(len(ROWS) - 1):
        pairs = intact()
        one, two = pairs[at][0], pairs[at + 1][0]
        # Each now has the content of the other under its own number.
        pairs[at] = (one, (one.seq, *ROWS[at + 1][1:]))
        pairs[at + 1] = (two, (two.seq, *ROWS[at][1:]))
        assert [(fault.what, fault.seq) for fault in walked(pairs)] == [
            ("edited", one.seq),
            ("edited", two.seq),
        ]


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"link": "0" * 64}, {"seq": 99}, {"position": 42}])
def test_an_edited_link_is_found(change):
    for at, (link, row) in enumerate(intact()):
        pairs = intact()
        pairs[at] = (replace(link, **change), None if "seq" in change else row)
        assert walked(pairs)


def test_a_row_that_is_forged_together_with_its_link_is_found():
    for at in range(len(ROWS)):
        forged = (*ROWS[at][:2], "job.forged", *ROWS[at][3:])
        before = Head(at, CHAIN[at - 1].link) if at else FIRST
        [link] = links(before, [forged])
        pairs = intact()
        pairs[at] = (link, forged)
        # The next link does not follow; of the last one the head tells.
        assert walked(pairs)


def test_links_that_are_missing_or_cut_off_are_found():
    for at in range(len(ROWS)):
        pairs = intact()
        del pairs[at]
        assert {fault.what for fault in walked(pairs)} & {"broken", "cut"}


def test_whoever_rewrites_the_whole_chain_is_found_by_a_head_that_was_kept():
    rewritten = list(links(FIRST, [(*ROWS[0][:2], "job.forged", *ROWS[0][3:]), *ROWS[1:]]))
    rows = [(*ROWS[0][:2], "job.forged", *ROWS[0][3:]), *ROWS[1:]]
    pairs: list[Pair] = list(zip(rewritten, rows, strict=True))
    end = Head(rewritten[-1].position, rewritten[-1].link)
    assert walked(pairs, head=end) == []
    assert [fault.what for fault in walked(pairs, head=end, kept=HEAD)] == ["broken"]
    assert [fault.what for fault in walked(intact(), kept=Head(99, "0" * 64))] == ["cut"]


def pruned(rows: Sequence[int], **detail: Any) -> list[Pair]:
    """The chain after these rows were removed, with the event that accounts for them."""
    gone = [CHAIN[at] for at in rows]
    said = {"count": len(gone), "digest": digest_of_all(link.digest for link in gone), "chained": True}
    event = (9, 2000, PRUNED, *[None] * 12, msgspec.json.encode(said | detail).decode())
    [last] = links(HEAD, [event])
    kept: list[Pair] = [
        (replace(link, pruned=9), None) if at in rows else (link, row)
        for at, (link, row) in enumerate(intact())
    ]
    return [*kept, (last, event)]


def after(pairs: list[Pair]) -> Head:
    return Head(pairs[-1][0].position, pairs[-1][0].link)


def test_exactly_the_rows_that_an_event_accounts_for_may_be_gone():
    pairs = pruned([0, 1, 3])
    assert walked(pairs, head=after(pairs)) == []
    for wrong in ({"count": 2}, {"digest": "0" * 64}, {"chained": False}):
        pairs = pruned([0, 1, 3], **wrong)
        assert [fault.what for fault in walked(pairs, head=after(pairs))] == ["unaccounted"]
    pairs = pruned([0, 1, 3])
    pairs[4] = (replace(pairs[4][0], pruned=9), None)
    assert [fault.what for fault in walked(pairs, head=after(pairs))] == ["unaccounted"]
    pairs = pruned([0, 1, 3])
    pairs[0] = (pairs[0][0], ROWS[0])
    assert [fault.what for fault in walked(pairs, head=after(pairs))] == ["restored"]


def test_a_removal_that_names_no_event_is_found():
    pairs = intact()
    pairs[2] = (replace(CHAIN[2], pruned=1), None)
    assert [fault.what for fault in walked(pairs)] == ["unaccounted"]


def test_a_digest_tells_null_from_text_and_one_column_from_the_next():
    row = [1, 2, "e", *[None] * 13]
    digests = {digest_of(row)}
    for at in range(3, len(RECORD)):
        for value in ("null", "", "None", "x"):
            changed = list(row)
            changed[at] = value
            digests.add(digest_of(changed))
    assert len(digests) == 1 + 4 * 13


def test_a_head_is_read_as_it_is_written():
    assert Head.read(f" {HEAD}\n") == HEAD
    for wrong in ("", "1", "1:", "x:" + "0" * 64, "1:" + "g" * 64, "1:0", "-1:" + "0" * 64):
        with pytest.raises(InvalidSetting, match="POSITION:LINK"):
            Head.read(wrong)
