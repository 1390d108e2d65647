from __future__ import annotations

import pytest

from bench.measuring import met
from bench.peers.showing import summary


@pytest.mark.parametrize(
    ("target", "ours", "ratio", "expected"),
    [
        ("<= 20 ms", 20.0, None, True),
        ("< 5 ms", 6.0, 0.1, False),
        (">= 0.7", 1.0, 0.71, True),
        ("<= 1.1", 1.0, 1.2, False),
        ("", 1.0, 1.0, None),
    ],
)
def test_a_target_with_a_unit_is_about_ours_and_one_without_about_the_ratio(target, ours, ratio, expected):
    assert met(target, ours, ratio) is expected


def test_the_ratio_to_a_peer_is_the_median_of_the_rounds_ratios():
    speeds = [(30.0, 10.0), (20.0, 20.0), (90.0, 10.0)]
    rounds = [
        {"Onward": {"drain, 1 process": ours}, "PgQueuer": {"drain, 1 process": theirs}}
        for ours, theirs in speeds
    ]
    [row] = summary(rounds)["ratios"]
    assert (row["ratio"], row["target"], row["met"]) == (3.0, 2.0, True)
