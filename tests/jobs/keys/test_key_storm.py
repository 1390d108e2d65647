"""Many sessions at the same few keys at once, in every way: no key is held by two live jobs."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from onward import Client, Failed, JobFilter, NewJob, Outcome, Released, Succeeded
from onward.errors import StoreBusy
from tests.extent import FULL

SESSIONS, TURNS, KEYS = 12, 30 if FULL else 10, 20


def first(old: dict[str, Any], _new: dict[str, Any]) -> dict[str, Any]:
    return old


def ask(dice: random.Random, key: int) -> NewJob:
    mode: Any = dice.choice(["return", "return", "replace", "reset", "coalesce"])
    return NewJob(
        job_type="t", key=f"k{key}", on_conflict=mode, merge=first, unique=dice.choice(["active", None])
    )


def turn(client: Client, dice: random.Random, worker: str) -> None:
    key = dice.randrange(KEYS)
    match dice.choice(["enqueue", "enqueue", "many", "work", "work", "cancel", "prune"]):
        case "enqueue":
            client.enqueue(ask(dice, key))
        case "many":
            client.enqueue_many([ask(dice, key) for key in dice.sample(range(KEYS), 8)])
        case "work":
            jobs = client.worker.claim("q:default", 5, worker_id=worker)
            ends: list[Outcome] = [Succeeded(), Failed("boom", retryable=False), Released()]
            client.worker.finish([job.end_with(dice.choice(ends)) for job in jobs])
        case "cancel":
            for job in client.jobs.list(JobFilter(key=f"k{key}"), limit=1).items:
                client.jobs.cancel(job.id, reason="enough")
        case "prune":
            client.keys.prune()


def test_no_key_is_ever_held_by_two_live_jobs(client):
    # R9, R10, F21, F47, I6
    busy: Counter[str] = Counter()

    def session(seed: int) -> None:
        dice, worker = random.Random(seed), f"w{seed}"
        client.worker.register(worker)
        for _ in range(TURNS):
            try:
                turn(client, dice, worker)
            except StoreBusy:
                # Met others four times: said so, and stored nothing.
                busy["times"] += 1

    client.jobs.count()
    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(session, range(SESSIONS)))
    live = [
        job
        for state in ("queued", "scheduled", "running")
        for job in client.jobs.list(JobFilter(state=state), limit=1000).items
    ]
    assert not [key for key, number in Counter(job.key for job in live).items() if number > 1]
    holders = {key.key: key.job_id for key in client.keys.list(limit=1000).items}
    assert {job.key: job.id for job in live}.items() <= holders.items()
    assert busy["times"] < SESSIONS * TURNS / 20
