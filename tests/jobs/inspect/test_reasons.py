"""What operators give as a reason: bounded, and kept without the secrets in it, whatever they did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, Edit, Failed, InvalidJob, NewJob
from tests.jobs.inspect.reading import rows
from tests.tenancy.world import tables

SECRET = "hunter2-and-more"
ACTIONS: dict[str, Callable[[Client, str, str], object]] = {
    "cancel": lambda c, job, why: c.jobs.cancel(job, reason=why),
    "pause": lambda c, _, why: c.orgs.pause("acme", reason=why),
    "resume": lambda c, _, why: (c.orgs.pause("acme", reason="r"), c.orgs.resume("acme", reason=why)),
    "close_gate": lambda c, _, why: c.gate.close(reason=why),
    "open_gate": lambda c, _, why: (c.gate.close(reason="r"), c.gate.open(reason=why)),
    "drop_subject": lambda c, _, why: c.jobs.drop_subject("booking:42", policy="delete", reason=why),
    "keys.forget": lambda c, _, why: c.keys.forget("k", reason=why),
    "dead.replay": lambda c, _, why: c.dead.replay([bury(c)], reason=why),
    "dead.discard": lambda c, _, why: c.dead.discard([bury(c)], reason=why),
    "dead.fix": lambda c, _, why: c.dead.fix(bury(c), Edit(patch={"n": 2}), reason=why),
    "usage.set_budget": lambda c, _, why: c.usage.set_budget("o", limit_micros=1, period="day", reason=why),
    "usage.remove_budget": lambda c, _, why: (
        c.usage.set_budget("o", limit_micros=1, period="day"), c.usage.remove_budget("o", reason=why),
    ),
    "artifacts.delete": lambda c, _, why: c.artifacts.delete(c.artifacts.put("n", text="x"), reason=why),
    "audit.prune": lambda c, _, why: c.audit.prune(
        before=datetime.now(UTC) - timedelta(days=1), reason=why
    ),
}  # fmt: skip


def bury(client: Client) -> str:
    client.worker.register("w")
    client.enqueue(NewJob(job_type="doomed", queue="q:doomed", payload={"n": 1}))
    [job] = client.worker.claim("q:doomed", 1, worker_id="w")
    client.worker.finish([job.end_with(Failed("boom", retryable=False))])
    client.worker.retire("w")
    return job.id


@pytest.fixture
def waiting(client: Client) -> str:
    old = datetime.now(UTC) - timedelta(days=9)
    return client.at(old).enqueue(NewJob(job_type="t", key="k", subject="booking:42")).id


@pytest.mark.parametrize("action", ACTIONS)
def test_a_secret_in_a_reason_is_not_kept(client, waiting, action):
    # R25
    ACTIONS[action](client, waiting, f"password={SECRET}")
    kept = [row for table in tables(client) for row in rows(client, f"SELECT * FROM {table}")]
    assert kept
    assert SECRET not in repr(kept)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_reason_that_is_too_long_is_refused(client, waiting, action):
    with pytest.raises(InvalidJob, match="the most is 1000"):
        ACTIONS[action](client, waiting, "x" * 1001)
