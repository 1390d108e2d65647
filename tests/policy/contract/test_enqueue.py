"""In a mode that asks for it, a job says where it comes from, or is refused before anything is written."""

import sqlite3
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import InvalidSetting, JobState, NewJob, Onward, Succeeded, job_key
from onward.core.policy.category import CATEGORIES
from onward.errors import ContractBroken
from tests.policy.contract.conftest import ORG, PROJECT

AT = datetime(2030, 1, 1, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def send(app: Onward, **options):
    @app.job(**options)
    def send(to: str, n: int = 1) -> None:
        raise NotImplementedError

    return send


def test_a_whole_job_is_stored_with_all_of_its_contract(strict, origin):  # S4-21, S4-22, S4-23
    job = (
        send(strict, category="maintenance")
        .using(**origin, correlation_id="c-1", key="k", run_at=AT, traceparent=TRACE)
        .enqueue("ada")
        .refresh()
    )
    assert (job.job_type, job.payload) == ("send", {"to": "ada"})
    assert (job.org_id, job.project_id) == (ORG, PROJECT)
    assert (job.actor_type, job.actor_id) == ("user", "42")
    assert (job.request_id, job.correlation_id, job.key) == ("r-1", "c-1", "k")
    assert (job.run_at, job.traceparent) == (AT, TRACE)
    assert len(job.id) == len(ORG)
    assert job.created_at.tzinfo is not None


def test_the_audit_names_request_actor_and_job(strict, origin):  # S4-1
    handle = send(strict).using(**origin).enqueue("ada")
    [record] = strict.client.audit.list()
    assert (record.event, record.job_id, record.job_type) == ("job.enqueued", handle.id, "send")
    assert (record.request_id, record.actor_type, record.actor_id) == ("r-1", "user", "42")


@pytest.mark.parametrize("missing", ["org_id", "actor", "request_id"])
def test_what_lacks_a_field_is_refused_by_every_way_before_anything_is_written(strict, origin, missing):
    # S4-21, R14, S1-4
    del origin[missing]
    job_type = send(strict)
    whole = job_type.using(org_id=ORG, actor="user:1", request_id="r").build("ada")
    ways = [
        lambda: job_type.using(**origin).enqueue("bob"),
        lambda: strict.enqueue_many([whole, job_type.using(**origin).build("bob")]),
        lambda: strict.client.enqueue(job_type.using(**origin).build("bob")),
    ]
    for way in ways:
        with pytest.raises(ContractBroken, match=r"missing, and (tenancy|contract)='required'"):
            way()
    assert strict.client.jobs.list().items == []


def test_a_refused_job_leaves_the_callers_transaction_usable(strict, origin, tmp_path):  # S4-10, S4-47
    job_type = send(strict)
    strict.client.migrate()
    tx: sqlite3.Connection | psycopg.Connection
    if strict.client.store.database == "sqlite":
        tx = sqlite3.connect(strict.clients.url.removeprefix("sqlite:///"), isolation_level=None)
        tx.execute("BEGIN")
    else:
        tx = psycopg.connect(strict.clients.url)
    with pytest.raises(ContractBroken):
        job_type.using(tx=tx, org_id=ORG).enqueue("ada")
    handle = job_type.using(tx=tx, **origin).enqueue("ada")
    tx.commit()
    tx.close()
    assert handle.refresh().state == JobState.QUEUED


def test_what_is_enqueued_twice_is_one_job_unless_it_differs(strict, origin):  # S4-2, S4-24, S4-28
    job_type = send(strict).using(**origin)
    first = job_type.enqueue("ada", n=1)
    assert not job_type.using(request_id="r-2").enqueue(to="ada", n=1).created
    assert job_type.enqueue("ada", n=2).created
    assert job_type.using(project_id=ORG).enqueue("ada", n=1).created  # S4-26
    key = first.refresh().key
    assert key == job_key("send", ORG, PROJECT, {"n": 1, "to": "ada"})
    assert key.startswith(f"send:{ORG}:{PROJECT}:")  # S4-27


def test_a_scheduled_job_is_idempotent_too(strict, origin):  # S4-68
    job_type = send(strict, category="maintenance").using(**origin, run_at=AT)
    first, second = job_type.enqueue("ada"), job_type.enqueue("ada")
    assert (first.created, second.created, second.id) == (True, False, first.id)
    assert first.refresh().state == JobState.SCHEDULED


def test_a_key_holds_as_long_as_its_category_says(strict, origin):  # S4-30
    start = datetime.now(UTC)
    strict.client.at(start).worker.register("w")
    for name, days in (("notification", 7), ("planning", 30), ("import_export", 30), ("maintenance", 7)):
        new = NewJob(
            job_type=name, category=name, org_id=ORG, actor_type="system", actor_id="s", request_id="r"
        )
        last = start + timedelta(days=days)
        assert strict.client.at(start).enqueue(new).created
        jobs = strict.client.at(start).worker.claim(CATEGORIES[name].queue, worker_id="w")
        strict.client.at(start).worker.finish([job.end_with(Succeeded()) for job in jobs])
        assert not strict.client.at(last - timedelta(seconds=1)).enqueue(new).created
        assert strict.client.at(last + timedelta(seconds=1)).enqueue(new).created


def test_an_optional_contract_checks_what_is_given(make_app):  # S4-21
    job_type = send(make_app(contract="optional"))
    assert job_type.enqueue("ada").created
    assert job_type.using(actor="api_key:k").enqueue("bob").refresh().key is None
    with pytest.raises(ContractBroken, match="actor_type is 'cron'"):
        job_type.using(actor="cron:nightly").enqueue("eve")


def test_without_tenancy_an_org_is_refused_at_enqueue(make_app):  # R14
    app, other = make_app(tenancy="off"), make_app()
    for way in (
        lambda: app.client.enqueue(NewJob(job_type="t", org_id="acme")),
        lambda: send(app).using(org_id="acme").enqueue("ada"),
        lambda: app.context(org_id="acme"),
    ):
        with pytest.raises(ContractBroken, match="org_id is 'acme', and tenancy='off' knows no orgs"):
            way()
    # The context of another application is none of its business.
    with other.context(org_id="acme", request_id="r"):
        job = app.client.jobs.get(app.client.enqueue(NewJob(job_type="t")).id)
    assert (job.org_id, job.request_id) == (None, "r")


def test_the_strict_profile_schedules_only_what_it_may(strict, origin):  # S4-65, S4-66
    later = {"delay": "10m", **origin}
    strict.job(category="maintenance")(_sweep).using(**later).enqueue()
    notify = send(strict, category="notification")
    assert notify.using(run_at=AT, **origin).enqueue("ada").refresh().run_at == AT
    for refused in (
        notify.using(**later),
        strict.job(name="plan", category="planning")(_plan).using(**later),
    ):
        with pytest.raises(
            ContractBroken, match=r"category (notification is scheduled by|planning may not be)"
        ):
            refused.enqueue("ada")


def _sweep() -> None:
    raise NotImplementedError


def _plan(to: str) -> None:
    raise NotImplementedError


def test_a_route_decides_unless_the_definition_or_the_enqueue_names_a_queue(make_app):  # S4-19
    app = make_app(routes={"send": "q:mail"})
    job_type = send(app)
    assert job_type.enqueue("ada").refresh().queue == "q:mail"
    assert job_type.using(queue="q:own").enqueue("ada").refresh().queue == "q:own"
    assert app.job(name="s", queue="q:def")(_plan).enqueue("ada").refresh().queue == "q:def"


def test_the_critical_queue_is_refused_to_others(strict, origin):  # S4-20
    with pytest.raises(ContractBroken, match="kept for the category critical"):
        send(strict).using(queue="q:critical", **origin).enqueue("ada")
    with pytest.raises(ContractBroken, match="kept for the category critical"):
        strict.job(name="x", queue="q:critical")(_plan)
    critical = strict.job(name="y", category="critical")(_plan)
    assert critical.using(**origin).enqueue("ada").refresh().queue == "q:critical"


def test_a_setting_that_does_not_exist_is_told_its_neighbour(make_app):
    with pytest.raises(InvalidSetting, match=r'Onward\(\) has no option "tenency". Did you mean "tenancy"\?'):
        make_app(tenency="off")
