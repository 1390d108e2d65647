"""However many schedulers there are and wherever they are killed, every occurrence is fired exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward import Client
from onward.core.schedules.schedule import ScheduleRun
from tests.schedules.killed_schedulers import BEGIN, DAYS
from tests.worker.faults.place import ROOT, Place, chosen_place

SCHEDULES: dict[str, dict[str, Any]] = {
    "hourly": {"cron": "0 * * * *"},
    "nightly": {"cron": "30 1 * * *", "tz": "Europe/Lisbon"},
    "often": {"every": "17m"},
    "sometimes": {"every": "5h", "jitter": "1h"},
}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Empty tables, once for each database."""
    with chosen_place(request, tmp_path) as place:
        yield place


def all_runs(client: Client, name: str) -> list[ScheduleRun]:
    page = client.schedules.runs(name, limit=1000)
    found = list(page)
    while page.next_cursor is not None:
        page = client.schedules.runs(name, limit=1000, cursor=page.next_cursor)
        found += page
    return found


def test_five_schedulers_killed_at_random_for_ten_days_fire_every_occurrence_once(place: Place):
    client = place.client
    for name, timing in SCHEDULES.items():
        client.at(BEGIN).schedules.add(name, "report", missed="all", **timing)
    command = [sys.executable, "-m", "tests.schedules.killed_schedulers", place.url, place.schema, "7"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 10, "too few were killed to show anything"
    for name in SCHEDULES:
        expected = client.schedules.get(name).timing.occurrences(BEGIN, BEGIN + DAYS, 10_000)
        runs = all_runs(client, name)
        assert sorted(run.occurrence for run in runs) == list(expected)
        jobs = client.jobs.get_many([str(run.job_id) for run in runs])
        assert len(jobs) == len(expected)
    table = f"{client.store.prefix}live"
    keys = Counter(key for (key,) in place.query(f"SELECT key FROM {table}"))
    assert set(keys.values()) == {1}
    assert len(keys) == sum(len(all_runs(client, name)) for name in SCHEDULES)
