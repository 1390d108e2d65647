"""No secret gets into the database: jobs that hold one are refused, redacted, or allowed for a reason."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward import Client, InvalidSetting, NewJob, Onward, PayloadRejected, Redaction
from onward.core.policy.policies import Policies
from onward.core.secrets.patterns import MASK
from onward.errors import SecretInPayload
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.jobs.inspect.reading import rows
from tests.secrets.test_redaction import AWS, STRIPE

SECRET = "hunter2-hunter2"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"auth": {"password": SECRET}}, "$.auth.password"),
    ({"apiKey": SECRET}, "$.apiKey"),
    ({"n": 1, "note": f"card {STRIPE}"}, "$.note"),
    ({"list": [f"https://ada:{SECRET}@db/"]}, "$.list[0]"),
]


def with_settings(client: Client, **settings: Any) -> Client:
    return Client(store=client.store, policies=Policies.of(**settings))


def stored(client: Client) -> str:
    """All that is in the tables, as one text."""
    tables = ("live", "ended", "audit", "keys", "attempts")
    return "".join(repr(rows(client, f"SELECT * FROM {{prefix}}{table}")) for table in tables)


@pytest.mark.parametrize(("payload", "path"), BAD)
def test_a_payload_with_a_secret_is_refused_with_its_path(client, payload, path):  # S4-51, R25, A20
    with pytest.raises(SecretInPayload) as refused:
        client.enqueue(NewJob(job_type="t", payload=payload))
    assert refused.value.path == path
    assert str(refused.value).startswith(f"payload at {path} holds a secret (")
    assert "hunter2" not in str(refused.value)
    assert STRIPE not in str(refused.value)
    assert isinstance(refused.value, PayloadRejected)
    assert client.jobs.count().live == {}


@pytest.mark.parametrize(("payload", "path"), BAD)
@pytest.mark.parametrize("others", [{"n": 1}, {"nested": {"n": [1]}}], ids=["flat", "nested"])
def test_one_of_many_is_named_and_none_is_stored(client, payload, path, others):
    jobs = [NewJob(job_type="t", payload={**others, "at": at}) for at in range(5)]
    with pytest.raises(SecretInPayload) as refused:
        client.enqueue_many([*jobs, NewJob(job_type="t", payload=payload), *jobs])
    assert str(refused.value).startswith(f"jobs[5]: payload at {path} holds a secret (")
    assert "hunter2" not in str(refused.value)
    assert client.jobs.count().live == {}


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"key": f"sync:{AWS}"}, "key"),
        ({"subject": f"user:{STRIPE}"}, "subject"),
        ({"tags": ["ok", f"password={SECRET}"]}, "tags[1]"),
    ],
)
def test_a_secret_in_a_key_a_subject_or_a_tag_is_refused_by_its_looks(client, field, path):
    for enqueue in (client.enqueue, lambda job: client.enqueue_many([NewJob(job_type="t"), job])):
        with pytest.raises(SecretInPayload) as refused:
            enqueue(NewJob(job_type="t", **field))
        assert refused.value.path == path
    redacting = with_settings(client, secrets="redact")
    with pytest.raises(SecretInPayload):
        redacting.enqueue(NewJob(job_type="t", **field))
    client.enqueue(NewJob(job_type="t", key="password", subject="token:5", tags=["secret"]))


def test_the_callers_transaction_stays_usable(client, tmp_path):
    store = client.store
    if isinstance(store, SqliteStore):
        client.migrate()
        connection: Any = sqlite3.connect(store.file.path)
        connection.execute("BEGIN")
    else:
        connection = psycopg.connect(store.url)
    with closing(connection):
        within = client.within(connection)
        with pytest.raises(SecretInPayload):
            within.enqueue(NewJob(job_type="t", payload={"password": SECRET}))
        with pytest.raises(SecretInPayload):
            within.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", payload={"password": SECRET})])
        kept = within.enqueue(NewJob(job_type="t", payload={"password_ref": "vault:db"}))
        connection.commit()
    assert client.jobs.get(kept.id).payload == {"password_ref": "vault:db"}
    assert len(client.jobs.list().items) == 1


def test_a_redacted_payload_is_stored_without_its_secrets(client):
    redacting = with_settings(client, secrets="redact")
    payload = {"user": "ada", "auth": {"password": SECRET}, "note": f"use {STRIPE}"}
    one = redacting.enqueue(NewJob(job_type="t", payload=payload))
    many = redacting.enqueue_many(
        [NewJob(job_type="t", payload={"n": 1}), NewJob(job_type="t", payload={"token": SECRET})]
    )
    assert client.jobs.get(one.id).payload == {
        "user": "ada",
        "auth": {"password": MASK},
        "note": f"use {MASK}",
    }
    assert [client.jobs.get(job.id).payload for job in many] == [{"n": 1}, {"token": MASK}]
    assert payload["auth"] == {"password": SECRET}, "the caller's own is left as it is"
    assert "hunter2" not in stored(client)


def test_secrets_are_allowed_for_a_reason(client):
    allowing = with_settings(client, secrets="allow", secrets_reason="the tables are encrypted")
    job = allowing.enqueue(NewJob(job_type="t", payload={"password": SECRET}, key=AWS))
    assert client.jobs.get(job.id).payload == {"password": SECRET}
    assert allowing.policies.secrets_of("t").reason == "the tables are encrypted"


def test_a_job_type_has_a_policy_of_its_own(app):
    @app.job(secrets="allow", secrets_reason="rotated every hour")
    def allowed(password: str) -> None: ...

    @app.job(secrets="redact")
    def redacted(password: str) -> None: ...

    @app.job
    def rejected(password: str) -> None: ...

    assert allowed.enqueue(SECRET).refresh().payload == {"password": SECRET}
    assert redacted.enqueue(SECRET).refresh().payload == {"password": MASK}
    with pytest.raises(SecretInPayload):
        rejected.enqueue(SECRET)
    with pytest.raises(SecretInPayload, match=r"^jobs\[1\]"):
        app.enqueue_many([allowed.build(SECRET), rejected.build(SECRET)])
    # Also where a job is asked for by its name alone.
    assert app.client.enqueue(NewJob(job_type="allowed", payload={"password": SECRET})).created
    assert allowed.handler.secrets == ("allow", "rotated every hour")
    assert app.policies.secrets_of("rejected").policy == "reject"


@pytest.mark.parametrize(
    "wrong",
    [
        {"secrets": "allow"}, {"secrets": "allow", "secrets_reason": " "}, {"secrets": "maybe"},
        {"secrets": "redact", "secrets_reason": "x"}, {"secrets_reason": "x"},
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidSetting, match="secrets"):
        Onward("sqlite://", **wrong)
    app = Onward("sqlite://")
    with pytest.raises(InvalidSetting, match="secrets"):

        @app.job(**wrong)
        def job() -> None: ...


def test_an_application_adds_to_the_list(client):
    own = with_settings(client, redact=Redaction(names=["pin"], patterns=[r"cust-\d{5}"]))
    for payload in ({"pin": "0000"}, {"x": "see cust-12345"}, {"nested": [{"card_pin": "1"}]}):
        with pytest.raises(SecretInPayload):
            own.enqueue(NewJob(job_type="t", payload=payload))
        with pytest.raises(SecretInPayload):
            own.enqueue_many([NewJob(job_type="t", payload=payload)] * 2)
        client.enqueue(NewJob(job_type="t", payload=payload))
    with pytest.raises(PayloadRejected) as refused:
        own.enqueue(NewJob(job_type="t", payload={"pin": "12345\0"}))
    assert "12345" not in str(refused.value)


@pytest.mark.parametrize(
    "job",
    [
        {"payload": {"password": f"{SECRET}\0"}},
        {"payload": {"x": f"password={SECRET}\0"}},
        {"payload": {f"token={SECRET}": b"x"}},
        {"payload": {"x": {1: f"password={SECRET}"}}},
        {"key": f"password={SECRET}" * 90},
        {"key": f"password={SECRET}\0"},
        {"payload": {"auth": {"password": {SECRET}}}},
    ],
)
def test_what_is_refused_for_another_reason_does_not_show_its_secret(client, job):  # A20
    for enqueue in (client.enqueue, lambda job: client.enqueue_many([job])):
        with pytest.raises(ValueError, match=r".") as refused:
            enqueue(NewJob(**{"job_type": "t", **job}))
        assert "hunter2" not in str(refused.value)
