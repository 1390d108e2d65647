"""How long each is kept, as rules without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Onward, Retention
from onward.core.policy.retention import EndedJob
from onward.errors import InvalidSetting

DAY = timedelta(days=1)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def ended(days_ago: float, state: str = "succeeded") -> EndedJob:
    return EndedJob("x", state, "default", "q:default", NOW - days_ago * DAY)


@pytest.mark.parametrize(("state", "days"), [("succeeded", 7), ("cancelled", 30), ("dead", 90)])
def test_each_state_has_a_time_of_its_own_by_default(state, days):
    # S4-16
    retention = Retention()
    assert not retention.is_over(ended(days - 0.01, state), NOW)
    assert retention.is_over(ended(days, state), NOW)


def test_none_is_for_ever():
    retention = Retention(succeeded=None, cancelled=None, dead=None)
    assert not retention.is_over(ended(100_000), NOW)
    assert retention.shortest is None


def test_a_queue_goes_before_a_category_and_both_before_the_rest():
    retention = Retention(
        succeeded="1d",
        by_queue={"q:exports": {"succeeded": "90d"}},
        by_category={"planning": {"succeeded": None, "dead": "2d"}, "import_export": {"succeeded": "3d"}},
    )
    assert retention.kept("succeeded", "default", "q:default") == DAY
    assert retention.kept("succeeded", "planning", "q:default") is None
    assert retention.kept("dead", "planning", "q:default") == 2 * DAY
    assert retention.kept("succeeded", "import_export", "q:exports") == 90 * DAY
    # What an override leaves out is as without it.
    assert retention.kept("dead", "import_export", "q:exports") == 90 * DAY
    assert retention.kept("cancelled", "planning", "q:exports") == 30 * DAY
    assert retention.shortest == DAY


def test_the_shortest_time_may_be_that_of_a_queue():
    assert Retention(by_queue={"q": {"dead": "1h"}}).shortest == DAY / 24


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"succeeded": "soon"}, "succeeded is 'soon'"),
        ({"usage": "10s"}, "usage is"),
        ({"by_queue": {"q": {"done": "1d"}}}, "has 'done'; give succeeded, cancelled, dead"),
        ({"by_queue": {"q": "1d"}}, "by_queue['q'] is '1d'"),
        ({"by_category": "1d"}, "by_category is '1d'"),
        ({"by_category": {"c": {"dead": "-"}}}, "by_category['c']['dead'] is '-'"),
    ],
)
def test_what_is_no_span_is_refused_by_its_name(given, said):
    with pytest.raises(InvalidSetting) as refused:
        Retention(**given)
    assert said in str(refused.value)


def test_an_application_says_how_long_and_whether(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/o.db", retention=Retention(succeeded="1d"), maintenance=False)
    assert app.policies.settings.retention.span_of("succeeded") == DAY
    assert not app.policies.settings.maintenance
    with pytest.raises(InvalidSetting, match="retention is '1d'"):
        Onward(f"sqlite:///{tmp_path}/o.db", retention="1d")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="planning"):
        Onward(f"sqlite:///{tmp_path}/o.db", retention=Retention(by_category={"plannin": {"dead": "1d"}}))
    with pytest.raises(InvalidSetting, match="maintenance is 'off'"):
        Onward(f"sqlite:///{tmp_path}/o.db", maintenance="off")  # type: ignore[arg-type]
