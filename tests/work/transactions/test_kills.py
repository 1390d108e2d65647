"""A process killed around an effect: what is in a transaction happens once, the rest once for each key.

The suite kills twenty workers on each database, a full run two hundred.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from onward import JobState, Onward
from tests.extent import FULL
from tests.work.effects.effect_provider import Provider
from tests.work.transactions.books import Books
from tests.work.transactions.kills_nursery import POINTS, Asked, jobs_of

pytestmark = pytest.mark.anyio

KILLS = 200 if FULL else 20
WAITING = 12
LONGEST = 0.03


class Nursery:
    """The process that brings up workers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def worker(self, asked: Asked) -> dict[str, Any]:
        """Have one live and die."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asdict(asked)), file=self._process.stdin, flush=True)
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        return told


@contextmanager
def nursery(app: Onward, provider: Provider) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.work.transactions.kills_nursery"]
    place = [str(app.clients.url), app.clients.schema, provider.url]
    with subprocess.Popen(
        [*command, *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()


class Watched:
    """What has been recorded as done, and how often the provider had been called for it by then."""

    def __init__(self, app: Onward, books: Books, provider: Provider) -> None:
        self._app = app
        self._books = books
        self._provider = provider
        self._table = "onward_effects" if books.sqlite else f"{app.clients.schema}.effects"
        self.calls: dict[str, int] = {}

    def look(self) -> None:
        calls = Counter(self._provider.calls)
        with self._books.connected() as connection:
            done = connection.execute(f"SELECT job_id FROM {self._table} WHERE state = 'done'").fetchall()
        for (job_id,) in done:
            if str(job_id) not in self.calls:
                [effect] = self._app.client.effects.list(str(job_id))
                self.calls[str(job_id)] = calls[effect.key]


async def test_a_worker_that_is_killed_at_any_point_has_done_each_effect_once(app, books):
    # F02: at named points of the handler, and at random ones.
    dice = random.Random(2026)
    kills: Counter[str] = Counter()
    ids: list[str] = []
    with Provider() as provider, nursery(app, provider) as workers:
        job_types = jobs_of(app, provider.url, Asked())
        watched = Watched(app, books, provider)
        for life in itertools.count():
            if kills.total() == KILLS:
                break
            waiting = sum(sum(states.values()) for states in app.client.jobs.count().live.values())
            numbers = range(len(ids) + 1, len(ids) + 1 + max(0, WAITING - waiting))
            ids += [job.id for job in app.enqueue_many([job_types[n % 2].build(n) for n in numbers])]
            point = POINTS[life // 2 % len(POINTS)] if life % 2 else None
            told = workers.worker(Asked(point, None if point else dice.uniform(0, LONGEST)))
            kills[point or "anywhere"] += told["killed"]
            app.client.worker.rescue_worker(told["worker"])
            watched.look()
        assert not workers.worker(Asked())["killed"]
    assert set(kills) == {*POINTS, "anywhere"}

    # What is written in the transaction is there once, and so are its follow-up job and what that wrote.
    numbers = range(1, len(ids) + 1)
    assert books.rows() == sorted([*numbers, *(-n for n in numbers)])
    counts = app.client.jobs.count()
    assert counts.total(JobState.SUCCEEDED) == 2 * len(ids)
    assert sum(sum(states.values()) for states in counts.live.values()) == 0
    # The provider has done one effect for each job: whatever was cut was tried again with the same key.
    effects = [app.client.effects.list(job_id) for job_id in ids]
    assert {len(of_one) for of_one in effects} == {1}
    assert provider.effects.keys() == {effect.key for [effect] in effects}
    assert [app.client.jobs.get(job_id).result for job_id in ids] == [
        provider.effects[effect.key] for [effect] in effects
    ]
    assert len(provider.calls) > len(ids), "no effect was cut between doing and recording"
    # And what was recorded as done was never asked for again.
    calls = Counter(provider.calls)
    assert {job_id: calls[effect.key] for job_id, [effect] in zip(ids, effects, strict=True)}.items() >= (
        watched.calls.items()
    )
