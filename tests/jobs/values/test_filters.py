"""Listings: what a filter asks the database for, and where the next page begins."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from onward.core.jobs.filters import Counts, JobFilter
from onward.core.jobs.ids import HIGHEST_ID, LOWEST_ID, first_id_at
from onward.core.jobs.job import JobState
from onward.errors import InvalidJob, InvalidSetting

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
CURSOR = "019b7c2e-9f00-7000-8000-000000000001"


def narrowed(cursor: str | None = None, **fields: Any) -> dict[str, Any]:
    """The parameters that are set."""
    params = JobFilter(**fields).params(cursor)
    return {name: value for name, value in params.items() if value not in {None, LOWEST_ID, HIGHEST_ID}}


def test_an_empty_filter_narrows_nothing():
    assert narrowed() == {}


@pytest.mark.parametrize("state", JobState)
def test_a_stored_state_is_asked_for_by_its_name(state):
    assert narrowed(state=state) == {"states": f'["{state.value}"]'}
    assert narrowed(state=state.value) == {"states": f'["{state.value}"]'}


@pytest.mark.parametrize(
    ("shown", "params", "tables"),
    [
        ("retrying", {"states": "[]", "retrying": 1}, {"in_live": 1, "in_ended": 0}),
        ("stuck", {"states": "[]", "stuck": 1}, {"in_live": 1, "in_ended": 0}),
        ("skipped", {"states": "[]"}, {"in_live": 0, "in_ended": 1, "skipped": 1}),
    ],
)
def test_a_shown_state_is_asked_for_by_what_it_means(shown, params, tables):  # R1
    assert narrowed(state=shown) == params
    found = JobFilter(state=shown).of_tables()
    assert {name: value for name, value in found.items() if value is not None} == tables


def test_several_states_are_asked_for_at_once():
    assert narrowed(state=("retrying", "dead", "queued")) == {"states": '["dead","queued"]', "retrying": 1}
    assert JobFilter(state=["dead", "queued"]).of_tables() | {"skipped": 0, "unresolved": 0} == {
        "in_live": 1, "in_ended": 1, "skipped": 0, "unresolved": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "index", "filtered"),
    [
        ({}, "any", False),
        ({"created_from": NOON}, "any", False),
        ({"key": "k"}, "any", True),
        ({"subject": "s"}, "subject", False),
        ({"subject": "s", "job_type": "t"}, "subject", True),
        ({"batch_id": CURSOR}, "batch_id", False),
        ({"parent_id": CURSOR, "state": "dead"}, "parent_id", True),
        ({"state": "dead"}, "dead", False),
        ({"state": ["dead"], "job_type": "t"}, "dead", True),
        ({"queue": "q:deadletter"}, "dead", True),
        ({"state": ["dead", "cancelled"]}, "any", True),
    ],
)
def test_what_an_index_finds_needs_no_bound(given, index, filtered):
    assert JobFilter(**given).index == index
    assert JobFilter(**given).is_filtered() is filtered


@pytest.mark.parametrize("tags", ["vip", [], ["t"] * 21, 5])
def test_tags_are_a_list_of_a_few_texts(tags):
    with pytest.raises(InvalidSetting, match="tags"):
        narrowed(tags=tags)


@pytest.mark.parametrize("state", [[], 5])
def test_no_state_at_all_is_refused(state):
    with pytest.raises(InvalidSetting, match="state is"):
        narrowed(state=state)


def test_the_oldest_first_go_on_above_the_cursor():
    above = JobFilter().params(CURSOR, "oldest")["above"]
    assert above == "019b7c2e-9f00-7000-8000-000000000002"


def test_every_shown_state_can_be_asked_for():
    assert all(narrowed(state=shown) for shown in ("retrying", "stuck", "skipped"))


@pytest.mark.parametrize("state", ["failed", "", "QUEUED", "retried"])
def test_an_unknown_state_is_told_which_there_are(state):  # R2
    with pytest.raises(InvalidSetting, match=r"is none of scheduled, .*retrying, stuck, skipped"):
        JobFilter(state=cast("JobState", state)).params(None)


@pytest.mark.parametrize(
    "field",
    [
        "job_type",
        "queue",
        "category",
        "org_id",
        "project_id",
        "key",
        "subject",
        "correlation_id",
        "request_id",
        "worker_id",
    ],
)
def test_a_text_is_asked_for_as_it_is(field):
    assert narrowed(**{field: "it's"}) == {field: "it's"}


def test_a_span_of_creation_is_a_span_of_ids():
    span = narrowed(created_from=NOON, created_before=NOON + timedelta(seconds=1))
    assert span == {"above": first_id_at(NOON), "below": first_id_at(NOON + timedelta(seconds=1))}


def test_the_next_page_begins_below_the_cursor():
    assert narrowed(CURSOR) == {"below": CURSOR}


def test_the_lower_of_cursor_and_end_of_span_counts():
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    assert narrowed(CURSOR, created_before=late) == {"below": CURSOR}
    assert narrowed(CURSOR, created_before=early) == {"below": first_id_at(early)}


@pytest.mark.parametrize(
    ("beginning", "above", "below"),
    [
        ("019b", "019b0000-0000-0000-0000-000000000000", "019c0000-0000-0000-0000-000000000000"),
        ("019B-7C2E", "019b7c2e-0000-0000-0000-000000000000", "019b7c2f-0000-0000-0000-000000000000"),
        ("f", "f0000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        (CURSOR, CURSOR, "019b7c2e-9f00-7000-8000-000000000002"),
    ],
)
def test_the_beginning_of_an_id_is_a_span_of_ids(beginning, above, below):
    params = JobFilter(id=beginning).params()
    assert (params["above"], params["below"]) == (above, below)


def test_the_narrowest_of_all_spans_counts():
    about = first_id_at(NOON)
    assert narrowed(CURSOR, id="019b", created_from=NOON) == {"above": about, "below": CURSOR}
    assert narrowed(id="f", created_from=NOON)["above"] == "f0000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("beginning", ["", "xyz", "0" * 33])
def test_what_begins_no_id_is_refused(beginning):
    with pytest.raises(InvalidJob, match="not the beginning of a job id"):
        narrowed(id=beginning)


def test_an_unknown_field_is_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field `job_typ`"):
        msgspec.json.decode(b'{"job_typ": "t"}', type=JobFilter)


@pytest.mark.parametrize("field", ["created_from", "created_before"])
def test_a_time_without_zone_is_refused(field):
    naive: dict[str, Any] = {field: NOON.replace(tzinfo=None)}
    with pytest.raises(InvalidSetting, match="has no time zone"):
        narrowed(**naive)


def test_a_total_sums_all_queues_and_the_ended():
    live = {"a": {JobState.QUEUED: 2}, "b": {JobState.QUEUED: 3, JobState.RUNNING: 1}}
    counts = Counts(live, {JobState.DEAD: 7}, 10_000)
    assert [counts.total(state) for state in (JobState.QUEUED, JobState.DEAD, JobState.BLOCKED)] == [5, 7, 0]
