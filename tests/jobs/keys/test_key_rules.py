"""Equal inputs give the same key; different job types, orgs and projects never do."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import combinations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.jobs.keys import canonical_json, dedupe_key, job_key, key_from_template, stable_hash
from onward.errors import InvalidJob, InvalidSetting

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PARTS = st.text(st.sampled_from("ab:%3A2567global"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1.0, 1),
        (-0.0, 0),
        (1e3, 1000),
        (1e22, 10**22),
        (1.5, 15e-1),
        ("caf\u00e9", "cafe\u0301"),
        ({"caf\u00e9": 1}, {"cafe\u0301": 1}),
        (NOON, "2026-03-01T12:00:00Z"),
        (NOON, "2026-03-01T14:00:00+02:00"),
        (NOON, "2026-03-01t12:00:00.000z"),
        (NOON, "2026-03-01 12:00:00.000000000Z"),
        (NOON.astimezone(timezone(timedelta(hours=-7))), NOON),
        (UUID(int=7), str(UUID(int=7))),
        ([1, 2], (1, 2)),
        (Colour.RED, "red"),
    ],
)
def test_equal_inputs_are_written_alike(one, other):  # S4-28
    assert canonical_json(one) == canonical_json(other)
    assert stable_hash({"x": [one]}) == stable_hash({"x": [other]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        (None, ""),
        (None, False),
        (1, "1"),
        ([1, 2], [2, 1]),
        ([], {}),
        (0.1, 0.1 + 2**-55),
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000001Z"),
        ("2026-03-01T12:00:00.0000001Z", "2026-03-01T12:00:00.0000002Z"),
        ("2026-13-01T12:00:00Z", "2026-13-01T12:00:00+00:00"),
    ],
)
def test_different_inputs_are_written_differently(one, other):
    assert canonical_json(one) != canonical_json(other)


def test_canonical_json_is_sorted_and_has_no_spaces():
    value = {"b": [1.0, "x y", None], "a": {"z": True, "y": NOON}}
    assert canonical_json(value) == ('{"a":{"y":"2026-03-01T12:00:00.000000Z","z":true},"b":[1,"x y",null]}')


@given(JSON)
def test_canonical_json_is_canonical(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"at": NOON.replace(tzinfo=None)}, r"at \$\.at is a datetime without a time zone"),
        ([float("nan")], r"at \$\[0\] is nan"),
        ([float("inf")], "is inf"),
        ({1: 2}, "use text for keys"),
        ({"x": b"y"}, "is a bytes"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"\u00e9": 1, "e\u0301": 2}, "two keys"),
        pytest.param(10**5000, "out of range", id="5000 digits"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "out of range"),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_its_place(value, complaint):
    with pytest.raises(InvalidJob, match=complaint):
        canonical_json(value)


def test_cycles_and_depth_end_in_a_refusal():
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(InvalidJob, match="deeper than 64 levels"):
        canonical_json(cycle)


def test_a_job_key_names_type_org_project_and_hash():  # S4-26 S4-27
    digest = stable_hash({"a": 1})
    assert len(digest) == 64
    assert job_key("invoice.send", "o1", "p1", {"a": 1.0}) == f"invoice.send:o1:p1:{digest}"
    assert job_key("invoice.send", "o1", None, {"a": 1}) == f"invoice.send:o1::{digest}"
    assert job_key("a:b", "50%", None, {"a": 1}) == f"a%3Ab:50%25::{digest}"


def test_an_empty_part_is_refused():
    for job_type, org_id, project_id in (("", "o", None), ("t", "", None), ("t", "o", "")):
        with pytest.raises(InvalidJob, match="empty"):
            job_key(job_type, org_id, project_id, {})


@given(st.lists(st.tuples(PARTS, st.none() | PARTS, st.none() | PARTS), min_size=2, max_size=6, unique=True))
def test_no_two_splits_into_type_org_and_project_share_a_key(splits):
    keys = {job_key(job_type, org_id, project_id, {}) for job_type, org_id, project_id in splits}
    assert len(keys) == len(splits)


@given(st.lists(st.tuples(PARTS, st.none() | PARTS, JSON), min_size=2, max_size=4))
def test_a_dedupe_key_tells_types_orgs_and_payloads_apart(jobs):
    def identity(job):
        return (job[0], job[1], canonical_json(job[2]))

    for one, other in combinations(jobs, 2):
        assert (dedupe_key(*one) == dedupe_key(*other)) == (identity(one) == identity(other))


def test_a_dedupe_key_is_type_org_and_sorted_json():  # S2-23
    assert dedupe_key("email", "o1", {"b": 1, "a": 2}) == 'email::o1::{"a":2,"b":1}'
    assert dedupe_key("email", None, {}) == "email::global::{}"
    assert dedupe_key("email", "global", {}) != dedupe_key("email", None, {})


def test_a_dedupe_key_that_would_be_too_long_ends_in_a_hash():
    payload = {"text": "é" * 600}
    assert dedupe_key("email", "o1", payload) == f"email::o1::sha256:{stable_hash(payload)}"


@pytest.mark.parametrize(
    ("template", "payload", "key"),
    [
        ("payment_sync_{pi}", {"pi": "pi_123"}, "payment_sync_pi_123"),
        ("day_pass_sync_{pi}", {"pi": "pi_123"}, "day_pass_sync_pi_123"),
        ("member_creation_{email}", {"email": "a@b.c"}, "member_creation_a@b.c"),
        (
            "tier_sync_{email}_{old}_to_{new}",
            {"email": "a@b.c", "old": "Very Low", "new": "Gold Plus"},
            "tier_sync_a@b.c_Very_Low_to_Gold_Plus",
        ),
        ("n_{n}_{f}_{flag}", {"n": 7, "f": 2.0, "flag": True}, "n_7_2_true"),
        ("at_{at}", {"at": NOON}, "at_2026-03-01T12:00:00.000000Z"),
        ("fixed", {}, "fixed"),
    ],
)
def test_a_template_is_filled_from_the_payload(template, payload, key):  # S3-44
    assert key_from_template(template, payload) == key


@pytest.mark.parametrize("payload", [{}, {"pi": None}, {"pi": ""}])
def test_a_missing_field_is_named(payload):  # S3-44
    with pytest.raises(InvalidJob, match="'pi', which is missing or empty"):
        key_from_template("payment_sync_{pi}", payload)


@pytest.mark.parametrize(
    "template",
    ["{x.__class__}", "{x[0]}", "{x!r}", "{x:>10}", "{}", "{0}", "{x", "x}", "{{x}}", "{{}}", "{x{y}}"],
)
def test_a_template_names_plain_fields_only(template):
    with pytest.raises(InvalidSetting, match="key template"):
        key_from_template(template, {"x": "1", "y": "2"})


def test_a_field_that_is_no_scalar_is_refused():
    with pytest.raises(InvalidJob, match="field 'x' is a list"):
        key_from_template("{x}", {"x": [1]})
