"""What a handler may report of its progress, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward import Cancelled, Context, InvalidSetting, NewJob, Onward
from onward.core.plain import plain
from onward.core.work.progress import Report, read_progress
from onward.results import Progress
from tests.handlers.test_context import Attempt

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def started(tmp_path):
    """Begin a job without a worker; return its attempt and its Context."""
    app = Onward(f"sqlite:///{tmp_path}/started.db")

    def started(**fields: Any) -> tuple[Attempt, Context]:
        app.client.worker.register("w")
        app.client.enqueue(NewJob(job_type="t", **fields))
        [job] = app.client.worker.claim("q:default", worker_id="w")
        return (run := Attempt(job)), Context(run, app.clients)

    yield started
    app.close()


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, -1, 10**15 + 1, True, "3", None, Decimal("NaN")]
)
def test_what_is_no_amount_is_refused(started, number):
    run, ctx = started()
    with pytest.raises(InvalidSetting, match=r"done is .*; give a number from 0 to"):
        ctx.report(number)
    if number is not None:
        for ask in (lambda: ctx.report(1, number), lambda: ctx.progress([1], total=number)):
            with pytest.raises(InvalidSetting, match=r"total is .*; give a number from 0 to"):
                ask()
    assert run.reports == []


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (3, "note is an int, not text"),
        ("", "note is empty"),
        ("a\0b", "NUL character at 1"),
        ("\ud800", "half a surrogate pair"),
        ("x" * 201, "takes 201 bytes of UTF-8; the most is 200"),
        ("ä" * 101, "takes 202 bytes"),
    ],
)
def test_a_note_that_can_not_be_stored_is_refused_as_the_handlers_mistake(started, note, why):
    run, ctx = started()
    with pytest.raises(InvalidSetting, match=why):
        ctx.report(1, 2, note)
    assert run.reports == []


def test_an_amount_may_be_of_any_kind_of_number(started):
    run, ctx = started()
    ctx.report(0)
    ctx.report(1.5, 10, "page 4")
    ctx.report(Decimal("2.5"), Decimal(3))
    assert run.reports == [Report(0), Report(1.5, 10, "page 4"), Report(2.5, 3.0)]
    assert [type(report.done) for report in run.reports] == [int, float, float]


def test_a_note_is_kept_without_secrets_and_without_those_of_the_payload(started):
    run, ctx = started()
    # As of a job type that allows secrets.
    run.job = replace(run.job, payload={"auth": {"api_key": "correct-horse-battery"}})
    ctx.report(1, 2, "asking with correct-horse-battery, password=hunter22xyz")
    note = run.reports[0].note
    assert "correct-horse" not in note
    assert "hunter22" not in note
    assert note.startswith("asking with ")


def test_a_note_that_its_hidden_secrets_make_longer_is_cut(started):
    run, ctx = started()
    ctx.report(1, None, "ä" * 10 + " token=a1b2c3" * 13)
    note = run.reports[0].note
    assert len(note.encode()) == 200
    assert note.startswith("ä" * 10)
    # As of a child process: it is checked once more by its parent.
    assert Report.checked(1, None, note).done == 1


def test_each_item_counts_when_the_next_is_asked_for(started):
    run, ctx = started()
    items = ctx.progress(["a", "b"])
    assert run.reports == []
    assert next(items) == "a"
    assert run.reports == [Report(0, 2)]
    assert next(items) == "b"
    assert list(items) == []
    assert run.reports == [Report(0, 2), Report(1, 2), Report(2, 2)]


def test_a_total_that_is_not_known_is_none_and_may_be_given(started):
    run, ctx = started()
    assert list(ctx.progress(iter("ab"))) == ["a", "b"]
    assert list(ctx.progress(iter("c"), total=5)) == ["c"]
    assert list(ctx.progress([], 3)) == []
    assert [report.total for report in run.reports] == [None, None, None, 5, 5, 3]


@pytest.mark.anyio
async def test_async_items_are_counted_in_the_same_way(started):
    run, ctx = started()

    async def pages() -> AsyncIterator[str]:
        for page in "abc":
            yield page

    assert [page async for page in ctx.progress(pages(), total=3)] == ["a", "b", "c"]
    assert run.reports == [Report(done, 3) for done in range(4)]
    given = ctx.progress(pages())
    assert await anext(given) == "a"
    run.cancel("enough")
    with pytest.raises(Cancelled):
        await anext(given)


@pytest.mark.anyio
async def test_plain_items_are_iterated_by_a_plain_for_on_the_event_loop_too(started):
    run, ctx = started()
    assert list(ctx.progress("ab")) == ["a", "b"]
    assert run.last_report == Report(2, 2)


def test_what_has_no_items_is_refused_at_the_call(started):
    _, ctx = started()
    with pytest.raises(InvalidSetting, match=r"ctx\.progress\(\) got 3, which can't be iterated over"):
        ctx.progress(3)


@pytest.mark.parametrize(
    ("done", "total", "fraction"),
    [(1, 4, 0.25), (0, 4, 0.0), (5, 4, 1.0), (0, 0, 1.0), (2.5, 10, 0.25), (7, None, None)],
)
def test_the_fraction_is_what_is_done_of_the_total(done, total, fraction):
    progress = Progress(done, total, "n", NOW)
    assert progress.fraction == fraction
    shown = {"done": done, "total": total, "note": "n", "at": "2026-01-02T00:00:00.000000Z"}
    assert plain(progress) == {**shown, "fraction": fraction}


@given(st.integers(0, 10**15) | st.floats(0, 1e15), st.none() | st.integers(0, 10**15) | st.floats(0, 1e15))
def test_the_fraction_is_a_share(done, total):
    fraction = Progress(done, total, None, NOW).fraction
    assert (fraction is None) == (total is None)
    assert fraction is None or 0 <= fraction <= 1


@pytest.mark.parametrize("text", ["", "1", "{}", '{"done": "1", "at": 1}', '{"done": 1}', '{"at": 1}'])
def test_what_is_no_progress_is_not_read(text):
    with pytest.raises(ValueError, match=r"."):
        read_progress(text)


def test_a_progress_that_lacks_total_and_note_is_read():
    assert read_progress('{"done": 1, "at": 1000000}') == Progress(
        1, None, None, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    )
