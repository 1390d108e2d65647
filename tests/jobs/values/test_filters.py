"""Listings: what a filter asks the database for, and where the next page begins."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from onward.core.jobs.filters import Counts, JobFilter
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import JobState
from onward.errors import InvalidJob, InvalidSetting

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
CURSOR = "019b7c2e-9f00-7000-8000-000000000001"


def narrowed(cursor: str | None = None, **fields: Any) -> dict[str, Any]:
    """The parameters that are set."""
    params = JobFilter(**fields).params(cursor)
    return {name: value for name, value in params.items() if value is not None}


def test_an_empty_filter_narrows_nothing():
    assert narrowed() == {}


@pytest.mark.parametrize("state", JobState)
def test_a_stored_state_is_asked_for_by_its_name(state):
    assert narrowed(state=state) == {"state": state.value}
    assert type(narrowed(state=state)["state"]) is str
    assert narrowed(state=state.value) == {"state": state.value}


@pytest.mark.parametrize(
    ("shown", "params"),
    [
        ("retrying", {"state": "scheduled", "retrying": 1}),
        ("stuck", {"state": "running", "stuck": 1}),
        ("skipped", {"state": "succeeded", "outcome": "skipped"}),
    ],
)
def test_a_shown_state_is_asked_for_by_what_it_means(shown, params):  # R1
    assert narrowed(state=shown) == params


def test_every_shown_state_can_be_asked_for():
    assert all(narrowed(state=shown) for shown in ("retrying", "stuck", "skipped"))


@pytest.mark.parametrize("state", ["failed", "", "QUEUED", "retried"])
def test_an_unknown_state_is_told_which_there_are(state):  # R2
    with pytest.raises(InvalidSetting, match=r"is none of scheduled, .*retrying, stuck, skipped"):
        JobFilter(state=cast("JobState", state)).params(None)


@pytest.mark.parametrize(
    "field", ["job_type", "queue", "org_id", "project_id", "key", "subject", "correlation_id"]
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
    assert narrowed(id=beginning) == {"above": above, "below": below}


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
