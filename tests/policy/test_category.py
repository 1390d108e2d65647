"""The presets and the categories of the examples: their delays, queues and keys."""

from dataclasses import replace
from datetime import timedelta

import pytest

from examples import categories as examples
from examples.categories import ATLAS, BOOKING, HUBSPOT
from onward.core.policy.category import CATEGORIES, QUEUES, category
from onward.errors import InvalidSetting

KNOWN = {**CATEGORIES, **{own.name: own for own in examples.CATEGORIES}}
MINUTE = 60
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("default", [5, 10, 20, 40]),  # S4-31 S4-33
        ("critical", [5, 10, 20, 40]),
        ("audit_enrichment", [5, 10, 20, 40]),
        ("notification", [5, 10, 20, 40, 80, 160, 320, 640, 1280]),  # S4-34
        ("planning", [5, 10]),  # S4-35
        ("import_export", [5, 10, 20, 40]),  # S4-36
        ("maintenance", [5, 10, 20, 40]),
        ("booking", [60, 60]),  # S0-59
        ("atlas", [10, 20, 40]),  # S1-25
        ("harmonyk", [1, 2, 4, 8]),  # S2-18
        ("hubspot", [2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 16 * MINUTE, 32 * MINUTE]),  # S3-25 S3-26
    ],
)
def test_the_delays_between_all_executions_are_the_documents_table(name, seconds):  # R5
    retry = category(name, KNOWN).retry
    assert retry.max_attempts == len(seconds) + 1
    assert [retry.delay(n + 1).total_seconds() for n in range(len(seconds))] == seconds


@pytest.mark.parametrize(
    ("name", "cap"),
    [
        ("default", 5 * MINUTE),
        ("critical", 5 * MINUTE),
        ("audit_enrichment", 5 * MINUTE),
        ("notification", 30 * MINUTE),  # S4-34
        ("planning", 2 * MINUTE),  # S4-35
        ("import_export", 10 * MINUTE),  # S4-36
        ("maintenance", 5 * MINUTE),
        ("harmonyk", 60),  # S2-19
        ("hubspot", 60 * MINUTE),  # S3-25
    ],
)
def test_a_delay_stops_at_the_cap(name, cap):
    assert category(name, KNOWN).retry.delay(50).total_seconds() == cap


def test_atlas_has_no_cap():  # S1-25
    assert ATLAS.retry.delay(12).total_seconds() == 10 * 2**11


def test_only_the_categories_of_the_contract_have_jitter():  # S4-32
    assert {preset.retry.jitter for preset in CATEGORIES.values()} == {True}
    assert {own.retry.jitter for own in examples.CATEGORIES} == {False}


def test_each_category_has_its_queue():  # S4-18 S4-19
    routes = {name: preset.queue for name, preset in CATEGORIES.items() if preset.queue != "q:default"}
    assert routes == {
        "critical": "q:critical",
        "notification": "q:notifications",
        "planning": "q:planning",
        "import_export": "q:exports",
        "maintenance": "q:maintenance",
    }
    assert len(QUEUES) == 7
    assert {preset.queue for preset in CATEGORIES.values()} | {"q:deadletter"} == set(QUEUES)


def test_keys_live_as_long_as_their_category_says():  # S4-30
    assert {name: preset.key_lifetime for name, preset in KNOWN.items()} == {
        "default": 7 * DAY,
        "critical": 7 * DAY,
        "audit_enrichment": 7 * DAY,
        "notification": 7 * DAY,
        "planning": 30 * DAY,
        "import_export": 30 * DAY,
        "maintenance": 7 * DAY,
        "booking": "forever",
        "atlas": None,
        "harmonyk": "active",
        "hubspot": "active",
    }


def test_a_booking_has_one_job_per_subject_and_type_that_starts_again():  # R9
    assert (BOOKING.unique_by, BOOKING.on_conflict) == ("subject", "reset")


def test_hubspot_waits_after_a_crash_and_retries_inside_an_attempt():  # R6 R12
    hubspot = HUBSPOT
    assert hubspot.lease == timedelta(minutes=10)
    assert hubspot.retry.delay_after_crash(1, 1, 0) == timedelta(minutes=5)
    assert hubspot.rate_limit_burns_attempt
    assert hubspot.inner_retry is not None
    assert hubspot.inner_retry.max_attempts == 6  # S3-31: the first call and 5 retries
    assert [hubspot.inner_retry.delay(n).total_seconds() for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 16, 30]


def test_payloads_may_take_a_mebibyte():
    assert {preset.max_payload_bytes for preset in CATEGORIES.values()} == {1_048_576}


def test_an_unknown_category_is_told_its_neighbour():
    with pytest.raises(InvalidSetting, match="did you mean 'notification'"):
        category("notifications")
    with pytest.raises(InvalidSetting, match="there are default, critical"):
        category("xyz")


@pytest.mark.parametrize(
    "change",
    [{"name": ""}, {"queue": ""}, {"max_payload_bytes": 0}, {"key_lifetime": timedelta()}, {"lease": -DAY}],
)
def test_a_category_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidSetting, match="give"):
        replace(category("default"), **change)
