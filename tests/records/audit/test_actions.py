"""What applications say in the audit: names of their own for ends, and lines by handlers."""

from __future__ import annotations

import asyncio

import pytest

from onward import Client, Context, NewJob, Onward, Succeeded
from onward.errors import InvalidJob, InvalidSetting, LeaseLost
from tests.jobs.inspect.reading import rows
from tests.records.audit.audit_history import OUTCOMES, WHO, claimed, finished, stale


def drain(app: Onward) -> None:
    async def run() -> None:
        await app.worker(drain=True).run()
        await app.clients.aclose()

    asyncio.run(run())


def test_a_job_type_names_its_ends_and_the_events_keep_their_names(app):
    # R21, S1-30, S1-31, S1-32
    @app.job(audit_action="EMAIL_SENT")
    def send() -> None: ...

    @app.job(audit_action={"succeeded": "DONE", "job.deadlettered": "JOB_EXHAUSTED_RETRIES"}, max_attempts=1)
    def fail() -> None:
        raise ValueError("secret text")

    sent, failed = send.enqueue(), fail.enqueue()
    drain(app)
    assert [(event.event, event.action) for event in app.client.jobs.events(sent.id)] == [
        ("job.enqueued", None),
        ("job.started", None),
        ("job.succeeded", "EMAIL_SENT"),
    ]
    last = app.client.jobs.events(failed.id)[-1]
    assert (last.event, last.action) == ("job.deadlettered", "JOB_EXHAUSTED_RETRIES")
    assert last.detail == {"error_class": "ValueError", "reason": "attempts_exhausted"}


def test_a_job_that_is_rescued_to_death_is_named_as_well(app):
    @app.job(audit_action={"deadlettered": "JOB_EXHAUSTED_RETRIES"}, max_attempts=1)
    def never() -> None: ...

    job_id = never.enqueue().id
    client = app.client
    client.worker.register("w")
    assert client.worker.claim("q:default", worker_id="w")
    client.worker.retire("w")
    client.worker.rescue().require()
    last = client.jobs.events(job_id)[-1]
    assert (last.event, last.action) == ("job.deadlettered", "JOB_EXHAUSTED_RETRIES")


@pytest.mark.parametrize(
    ("said", "match"),
    [(1, "names"), ({"done": "X"}, "event 'done'"), ({"started": "X"}, "event 'started'")],
)
def test_an_action_for_what_no_worker_ends_is_refused(said, match):
    app = Onward("sqlite://")
    with pytest.raises(InvalidSetting, match=match):

        @app.job(audit_action=said)
        def never() -> None: ...

    with pytest.raises(InvalidJob, match="audit_action is empty"):
        app.job(name="work", audit_action="")(lambda: None)


def test_the_audit_says_why_but_never_in_the_words_of_an_error(client):
    finished(client)
    details = {record.event: record.detail for record in client.audit.export()}
    assert details["job.failed"] == {"error_class": "E"}
    assert details["job.deadlettered"] == {"error_class": "E", "reason": "unrecoverable"}
    assert details["job.skipped"] == {"reason": "nothing to do"}
    assert details["job.succeeded"] is None
    assert "hush" not in repr(details)


def test_a_handler_adds_lines_to_the_audit(app):
    @app.job
    def book(ctx: Context) -> None:
        ctx.audit("SEAT_HELD", seat=12)

    @app.job
    async def abook(ctx: Context) -> None:
        await ctx.aaudit("SEAT_HELD", seat=13)
        await ctx.aaudit("PLAIN")

    jobs = [book.using(org_id="acme").enqueue(), abook.enqueue()]
    drain(app)
    [first], noted = ([e for e in app.client.jobs.events(job.id) if e.event == "job.noted"] for job in jobs)
    assert (first.action, first.detail, first.attempt) == ("SEAT_HELD", {"seat": 12}, 1)
    assert [(event.action, event.detail) for event in noted] == [("SEAT_HELD", {"seat": 13}), ("PLAIN", None)]


def test_a_line_under_a_stale_lease_is_refused_and_that_is_recorded(client):
    # R7
    for job in (stale(client), ended(client)):
        before = client.jobs.get(job.id)
        with pytest.raises(LeaseLost, match=job.id):
            client.worker.note(job.held_lease, "LATE", {"n": 1})
        assert client.jobs.get(job.id) == before
        [record] = client.audit.list(limit=1)
        assert (record.event, record.lease, record.action) == ("job.stale_result_rejected", job.lease, None)
        assert {name: getattr(record, name) for name in WHO} == WHO


def ended(client: Client):
    [job] = claimed(client)
    client.worker.finish([job.end_with(Succeeded())]).require()
    return job


def test_a_refused_end_says_whose_job_it_was(client):
    # R7, S4-53
    for job in (stale(client), ended(client)):
        for outcome in (OUTCOMES["job.succeeded"], OUTCOMES["job.failed"]):
            assert client.worker.finish([job.end_with(outcome)]).lost == {job.id}
            [record] = client.audit.list(limit=1)
            assert (record.event, record.job_type, record.attempt) == ("job.stale_result_rejected", "t", 1)
            assert {name: getattr(record, name) for name in WHO} == WHO
            assert (record.action, record.detail) == (None, None)


def test_a_line_must_fit(client):
    [job] = claimed(client)
    for action, detail in (("", {}), ("A" * 300, {}), ("A", {"text": "x" * 20_000})):
        with pytest.raises(InvalidJob):
            client.worker.note(job.held_lease, action, detail)


def test_no_reason_name_or_action_is_kept_with_its_secret(client):
    said = "with password=hunter2"
    [job] = claimed(client)
    client.worker.note(job.held_lease, said)
    client.usage.set_budget("acme", limit_micros=1, period="day", reason=said)
    client.usage.remove_budget("acme", reason=said)
    client.enqueue(NewJob(job_type="t", key="k"))
    client.keys.forget("k", reason=said)
    client.artifacts.put(said, text="x", job_id=job.id)
    kept = str(rows(client, "SELECT event, action, detail FROM {prefix}audit"))
    assert "hunter2" not in kept
    assert kept.count("with password=[redacted]") >= 5
