"""A place for large content, of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward import Client, NewJob
from onward.results import Job
from tests.records.artifacts.files import files


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where clients keep what is larger than 16 KB; made by the first of them."""
    place = tmp_path / "kept"
    monkeypatch.setenv("ONWARD_ARTIFACTS", str(place))
    return place


@pytest.fixture
def claimed(client: Client):
    """Enqueue a job and claim it."""

    def claimed(**fields) -> Job:
        client.worker.register(worker := f"worker of {fields}")
        client.enqueue(NewJob(job_type="t", **fields))
        [job] = client.worker.claim("q:default", worker_id=worker)
        return job

    return claimed


@pytest.fixture
def kept(place: Path):
    """Tell which files there are."""
    return lambda: files(place)
