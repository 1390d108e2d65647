from __future__ import annotations

from datetime import timedelta

import pytest

from onward import InvalidSetting
from onward.core.inputs.duration import duration


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (timedelta(minutes=3), timedelta(minutes=3)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        ("250ms", timedelta(milliseconds=250)),
        ("90s", timedelta(seconds=90)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
        ("5min", timedelta(minutes=5)),
        ("5 minutes", timedelta(minutes=5)),
        ("30 sec", timedelta(seconds=30)),
        ("1 second", timedelta(seconds=1)),
        ("1 hour 30 min", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        ("1week", timedelta(days=7)),
    ],
)
def test_a_length_of_time_is_read_as_people_write_it(written, meant):
    assert duration("delay", written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "soon",
        "",
        "10",
        "10  m",
        " 10m",
        "5 months",
        "2 dayz",
        "5 min ",
        "-5s",
        "5x",
        None,
        True,
        [],
        float("nan"),
        1e300,
        "9e9d",
    ],
)
def test_what_is_no_length_of_time_is_refused_by_the_name_of_its_argument(written):
    with pytest.raises(InvalidSetting, match=r"delay is .*give a timedelta, seconds, or a text"):
        duration("delay", written)
