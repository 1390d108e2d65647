"""A secret that a handler spills is nowhere: not in logs, errors, attempts, audit, listings or exports."""

from __future__ import annotations

import asyncio
import json
import logging
from enum import Enum
from typing import Any

import pytest

from onward import Context, JobFailed, JobState, Onward, Redaction
from onward.core.policy.policies import Policies
from onward.errors import InvalidArguments, SecretInPayload
from onward.worker.worker import Worker
from tests.extent import FULL
from tests.jobs.inspect.reading import rows
from tests.secrets.test_redaction import STRIPE
from tests.worker.attempts import secret_jobs
from tests.worker.attempts.secret_jobs import WAYS, spill
from tests.worker.waiting import SOON, drain

pytestmark = pytest.mark.anyio


class Plan(Enum):
    """An enum tells the value that it does not know."""

    FREE = "free"


# Only the payload of the job that carries it tells that this is one.
PLAIN = 'it\'s a "horse" battery/staple'


def all_texts(app: Onward) -> dict[str, str]:
    """Everything that is in the tables, but for the payloads that were given it."""
    client = app.client
    if client.store.database == "sqlite":
        tables = [name for (name,) in rows(client, "SELECT name FROM sqlite_master WHERE type = 'table'")]
        texts = {}
        for table in tables:
            columns = {row[1] for row in rows(client, f"PRAGMA table_info({table})")} - {"payload"}
            texts[table] = repr(rows(client, f"SELECT {', '.join(columns)} FROM {table}"))
    else:
        schema = client.store.prefix.rstrip(".")
        tables = [
            name for (name,) in rows(client, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
        ]
        each = [
            f"SELECT '{table}', (to_jsonb(found) - 'payload')::text FROM {schema}.{table} AS found"
            for table in tables
        ]
        texts = dict.fromkeys(tables, "")
        for table, text in rows(client, " UNION ALL ".join(each)):
            texts[table] += text
    assert any(name.endswith("live") for name in tables)
    return texts


def spilled(texts: dict[str, str], secret: str) -> list[str]:
    """The places where the secret, or a telling part of it, can be read."""
    parts = {secret, secret[: len(secret) // 2 + 2], "battery", "4eC39HqLyj"} if secret else set()
    return [place for place, text in texts.items() if any(part in text for part in parts)]


def shown(app: Onward, job_id: str) -> dict[str, str]:
    """What the client's own listings and exports tell."""
    client = app.client
    job = client.jobs.get(job_id)
    listed = [one for one in client.jobs.list().items if one.id == job_id]
    return {
        "job": repr((job.error, job.result, job.outcome)),
        "listing": repr([(one.error, one.result) for one in listed]),
        "attempts": repr(client.jobs.attempts(job_id)),
        "events": repr(client.jobs.events(job_id)),
    }


@pytest.mark.parametrize("secret", [PLAIN, STRIPE], ids=["named", "by its looks"])
@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_a_spilled_secret_is_nowhere(app, executor, secret, caplog, capfd):
    # S4-44, S4-56, R25, A20, I11
    @app.job(secrets="allow", secrets_reason="to see what becomes of it", max_attempts=2)
    async def on_the_loop(ctx: Context, way: str, secret: str) -> None:
        spill(ctx, way, secret)

    @app.job(secrets="allow", secrets_reason="to see what becomes of it", max_attempts=2)
    def in_a_thread(ctx: Context, way: str, secret: str) -> None:
        spill(ctx, way, secret)

    caplog.set_level(logging.DEBUG)
    job_type = on_the_loop if executor == "async" else in_a_thread
    jobs = await app.aenqueue_many([job_type.build(way, secret) for way in WAYS])
    told: list[Any] = []
    await drain(app, on_end=lambda job, to: told.append(to))
    await _check(app, [job.id for job in jobs], secret, caplog=caplog, capfd=capfd, told=told)
    for job in jobs:
        if (await job.arefresh()).state in {JobState.DEAD, JobState.CANCELLED}:
            with pytest.raises(JobFailed) as failed:
                await job.aresult()
            assert spilled({"JobFailed": str(failed.value)}, secret) == []


@pytest.mark.parametrize("secret", [PLAIN, STRIPE] if FULL else [PLAIN])
async def test_a_secret_that_is_spilled_in_a_child_process_is_nowhere(app, secret, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    allowed = Policies.of(secrets="allow", secrets_reason="to see what becomes of it")
    app.clients.policies = allowed
    build = secret_jobs.in_a_process.build
    jobs = await app.aclient.enqueue_many([build(way, secret) for way in WAYS])
    told: list[Any] = []
    async with asyncio.timeout(2 * SOON):
        handlers = secret_jobs.app.handlers
        await Worker(handlers, app.clients, drain=True, on_end=lambda job, to: told.append(to)).run()
    await _check(app, [job.id for job in jobs], secret, caplog=caplog, capfd=capfd, told=told)


async def _check(app, ids, secret, *, caplog, capfd, told) -> None:
    states = {app.client.jobs.get(job_id).state for job_id in ids}
    assert states >= {JobState.DEAD, JobState.SUCCEEDED, JobState.CANCELLED}
    assert sum(len(app.client.jobs.attempts(job_id)) for job_id in ids) > len(ids)
    out, err = capfd.readouterr()
    records = [
        json.dumps({name: repr(value) for name, value in vars(record).items()}) for record in caplog.records
    ]
    tables = all_texts(app)
    texts = {"logs": caplog.text, "out": out, "err": err, "told": repr(told), **tables}
    texts |= {f"record {number}": text for number, text in enumerate(records)}
    for job_id in ids:
        texts |= {f"{job_id} {name}": text for name, text in shown(app, job_id).items()}
    assert spilled(texts, secret) == []
    assert "[redacted]" in "".join(tables.values()), "or nothing was hidden because nothing was there"


async def test_a_handler_that_enqueues_a_secret_is_refused_and_dies_without_telling_it(app, caplog):
    @app.job
    async def passes_on(ctx: Context) -> None:
        await child.aenqueue({"password": "correct-horse"})

    @app.job
    async def child(auth: dict[str, str]) -> None: ...

    job = await passes_on.aenqueue()
    await drain(app)
    error = app.client.jobs.get(job.id).error
    assert (error.error_class, error.reason) == (SecretInPayload.__name__, "invalid_job")
    assert "$.auth.password" in error.message
    assert spilled({**all_texts(app), "logs": caplog.text}, "correct-horse") == []


async def test_what_an_application_adds_to_the_list_is_hidden_in_its_errors_and_logs(app, caplog):
    own = Redaction(names=["pin"], patterns=[r"cust-\d{5}"])
    app.clients.policies = Policies.of(redact=own)
    log = logging.getLogger("onward.job")

    @app.job(max_attempts=1)
    async def fails(ctx: Context) -> None:
        ctx.log.warning("pin=%s of %s", "98765", "cust-12345")
        raise ValueError("pin=98765 of cust-12345")

    job = await fails.aenqueue()
    await drain(app)
    error = app.client.jobs.get(job.id).error
    assert error.message == "pin=[redacted] of [redacted]"
    assert "pin=[redacted] of [redacted]" in caplog.text
    assert "98765" not in caplog.text + repr(all_texts(app))
    assert log.filters


async def test_arguments_that_do_not_fit_are_told_without_their_secrets(app):
    @app.job(secrets="allow", secrets_reason="to see the message")
    async def typed(token: Plan) -> None: ...

    with pytest.raises(InvalidArguments) as refused:
        typed.build("correct-horse")
    assert "correct-horse" not in str(refused.value)
    with pytest.raises(InvalidArguments):
        typed.build(object())
