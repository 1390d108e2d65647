"""What is known of job types, and the switch that skips the jobs of one."""

from __future__ import annotations

import logging

import pytest

from onward import Client, InvalidSetting, NewJob, NotAllowed, Onward
from onward.results import KnownJobType
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio


def known(app: Onward) -> dict[str, KnownJobType]:
    return {one.name: one for one in app.client.job_types.list()}


def declare(app: Onward) -> None:
    """Declare three job types, each with other facts."""

    @app.job(created_by="the checkout", triggered_by=["event booking.paid", "the button in the back office"])
    def confirm(booking_id: int) -> None:
        """Send the guest a confirmation.

        More is for programmers.
        """

    @app.job(every="10m", queue="q:reports", purpose="Keep the numbers fresh", category="critical")
    def report() -> None:
        """Not this."""

    @app.job(triggered_by="a timer", enabled=False)
    def bare() -> None: ...


def test_job_types_tell_their_purpose_their_maker_and_their_trigger(app):  # S0-20
    declare(app)
    app.schedule("by night", "confirm", payload={"booking_id": 1}, cron="0 3 * * *")
    confirm, report, bare = (known(app)[name] for name in ("confirm", "report", "bare"))
    assert (confirm.purpose, confirm.queue, confirm.category, confirm.created_by, confirm.workers) == (
        "Send the guest a confirmation.", "q:default", "default", "the checkout", 0,
    )  # fmt: skip
    assert confirm.triggered_by[:2] == ("event booking.paid", "the button in the back office")
    assert confirm.triggered_by[2].startswith("schedule by night: ")
    assert (report.purpose, report.queue, report.category) == (
        "Keep the numbers fresh", "q:reports", "critical",
    )  # fmt: skip
    [trigger] = report.triggered_by
    assert trigger.startswith("schedule report: ")
    assert (bare.purpose, bare.created_by, bare.triggered_by, bare.enabled) == (
        None, None, ("a timer",), False,
    )  # fmt: skip


async def test_a_client_without_the_code_sees_what_live_workers_know(app):  # S0-20
    declare(app)
    bystander = Client(store=app.client.store)
    assert bystander.job_types.list().items == []
    async with app.worker():
        seen = {one.name: one for one in bystander.job_types.list()}
        assert sorted(seen) == ["bare", "confirm", "report"]
        assert (seen["confirm"].purpose, seen["confirm"].workers) == ("Send the guest a confirmation.", 1)
        # The schedule of the code is stored by now, and is not listed twice.
        assert len(seen["report"].triggered_by) == 1
    assert bystander.job_types.list().items == []


def test_a_worker_that_reports_anything_spoils_no_listing(app):
    described = {"good": {"name": "good", "purpose": "p"}, "bad": {"name": 3}, "worse": 4}
    app.client.worker.register("w", info={"job_types": ["good", "bad", "other"], "described": described})
    app.client.worker.register("x", info={"job_types": 3, "described": []})
    found = known(app)
    assert {name: (one.purpose, one.category, one.workers) for name, one in found.items()} == {
        "good": ("p", "default", 1), "bad": (None, None, 1), "other": (None, None, 1),
    }  # fmt: skip


def test_the_facts_of_a_job_type_are_texts(app):
    for options in ({"purpose": 3}, {"created_by": " "}, {"triggered_by": [None, 3]}, {"enabled": "no"}):
        with pytest.raises(InvalidSetting, match=next(iter(options))):
            app.job(name="wrong", **options)(lambda: None)


def test_a_client_of_one_org_does_not_list_job_types(app):
    with pytest.raises(NotAllowed, match="all orgs"):
        app.client.for_org("acme").job_types.list()


def test_only_a_client_of_all_orgs_skips_a_job_type(app):
    with pytest.raises(NotAllowed, match="more than one org"):
        app.client.for_org("acme").job_types.skip("confirm", reason="r")


async def test_an_operator_skips_the_jobs_of_a_type_which_succeed_without_a_run(app, caplog):  # S3-20
    ran: list[int] = []

    @app.job
    async def sync(number: int) -> None:
        ran.append(number)

    @app.job
    async def other() -> None: ...

    client = app.client.acting_as("user:ada")
    assert client.job_types.skip("sync", reason="the CRM is being moved")
    assert not client.job_types.skip("sync", reason="the CRM is being moved")
    skip = known(app)["sync"].skip
    assert (skip.reason, skip.actor_id) == ("the CRM is being moved", "ada")
    assert app.client.gate.status().skips == {skip}
    assert app.client.gate.status().pauses == frozenset()
    [finding] = [one for one in app.client.doctor.check() if one.code == "job_type_skipped"]
    assert "the CRM is being moved" in finding.title
    skipped, fine = await sync.aenqueue(1), await other.aenqueue()
    with caplog.at_level(logging.INFO, logger="onward.worker"):
        tally = await drain(app)
    assert (tally.succeeded, ran) == (2, [])
    job = await skipped.arefresh()
    assert (job.state.value, job.outcome, job.result) == (
        "succeeded", "skipped", {"reason": "the CRM is being moved"},
    )  # fmt: skip
    assert (await fine.arefresh()).outcome == "succeeded"
    assert any(skipped.id in record.getMessage() for record in caplog.records)

    assert client.job_types.unskip("sync", reason="done")
    assert not client.job_types.unskip("sync")
    await sync.aenqueue(2)
    await drain(app)
    assert ran == [2]
    events = [one.event for one in app.client.audit.list() if one.job_type == "sync" and one.job_id is None]
    assert sorted(events) == ["job_type.skipped", "job_type.unskipped"]


async def test_a_running_worker_learns_of_the_switch(app):  # S3-20
    @app.job
    async def sync() -> None: ...

    async with app.worker() as worker:
        app.client.job_types.skip("sync", reason="r")
        await until(lambda: worker.parts.executor.known.skipped == {"sync": "r"})
        assert (await (await sync.aenqueue()).ajoin("20s")).outcome == "skipped"
        app.client.job_types.unskip("sync")
        await until(lambda: worker.parts.executor.known.skipped == {})
        assert (await (await sync.aenqueue()).ajoin("20s")).outcome == "succeeded"


async def test_code_switches_a_job_type_off(app):  # S3-20
    @app.job(enabled=False)
    async def sync() -> None:
        raise AssertionError

    handle = await sync.aenqueue()
    await drain(app)
    job = await handle.arefresh()
    assert (job.outcome, job.result) == ("skipped", {"reason": "its job type has enabled=False"})


async def test_jobs_of_a_skipped_type_without_a_handler_end_too(app):
    app.client.job_types.skip("gone", reason="it was removed")
    made = app.client.enqueue(NewJob(job_type="gone"))
    await drain(app)
    assert app.client.jobs.get(made.id).outcome == "skipped"
