"""Signals: kept for a while, within one org, and never missed by a job that parks at the same time."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from onward import Client, InvalidJob, JobState, NewJob, NotAllowed, Onward
from onward.connections import begin
from onward.core.policy.policies import Policies
from onward.core.work.wait import NEVER, Parked, place_of
from onward.errors import ContractBroken, SecretInPayload
from onward.origin import ambient
from tests.work.waits.wait_runs import NOW, Runs

DAY = timedelta(days=1)

# SQLite has one writer: none is open while another commits.
one_may_be_open = pytest.mark.parametrize("app", ["postgres"], indirect=True)


def test_a_signal_of_one_org_wakes_no_job_of_another_nor_one_of_none(runs):
    waiting = {}
    for org in ("acme", "bolt", None):
        ctx = runs.start(org_id=org)
        runs.leave(ctx, lambda ctx=ctx: ctx.wait_for("approved", "order:42"))
        waiting[org] = ctx.job.id
    assert runs.client.for_org("acme").signals.send("approved", "order:42").woken == 1
    assert runs.client.worker.signals.wake() == 0
    states = {org: runs.client.jobs.get(job_id).run_at < NEVER for org, job_id in waiting.items()}
    assert states == {"acme": True, "bolt": False, None: False}


def test_a_signal_inherits_the_org_and_the_actor_of_where_it_is_sent(app):
    with app.context(org_id="acme", actor="user:42"):
        app.signal("approved")
    [signal] = app.client.signals.list()
    assert (signal.org_id, signal.actor_type, signal.actor_id) == ("acme", "user", "42")
    app.signal("approved", org_id="bolt", actor="user:7")
    assert app.client.for_org("bolt").signals.list()[0].actor_id == "7"


def test_a_client_of_one_org_signals_within_it_alone(runs):
    ctx = runs.start(org_id="acme")
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    assert runs.client.for_org("acme").signals.send("approved").woken == 1
    # It makes no jobs ready, so that is left to the workers.
    job = runs.client.jobs.get(ctx.job.id)
    assert (job.state, job.run_at < NEVER) == (JobState.SCHEDULED, True)
    with ambient(org_id="bolt"):
        sent = runs.client.for_org("acme").signals.send("approved")
    assert runs.client.signals.list()[0] == runs.client.for_org("acme").signals.list()[0]
    assert (sent.woken, runs.client.for_org("bolt").signals.list().items) == (0, [])
    with pytest.raises(NotAllowed, match="confined"):
        runs.client.for_org("acme").for_org("bolt")


def test_a_signal_without_an_org_is_refused_where_each_job_has_one(client):
    strict = Client(store=client.store, policies=Policies.of(tenancy="required"))
    with pytest.raises(ContractBroken, match="org_id is missing"):
        strict.signals.send("approved")


def test_signals_are_listed_newest_first_and_by_page(client):
    for n in range(3):
        client.signals.send("paid", f"order:{n}", {"n": n})
    page = client.signals.list("paid", limit=2)
    assert [signal.payload for signal in page] == [{"n": 2}, {"n": 1}]
    rest = client.signals.list(limit=2, cursor=page.next_cursor)
    [oldest] = rest
    assert rest.next_cursor is None
    assert (oldest.key, oldest.expires_at - oldest.at) == ("order:0", 7 * DAY)
    assert [one.key for one in client.signals.list("paid", "order:1")] == ["order:1"]


def test_who_waits_is_listed_with_until_when(runs):
    ctx = runs.start(org_id="acme")
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42", timeout="2d")).until
    [waits] = runs.client.signals.awaited("approved")
    assert (waits.job_id, waits.org_id, waits.key, waits.until) == (ctx.job.id, "acme", "order:42", until)
    assert list(runs.client.signals.awaited("refused")) == []


def test_a_signal_leaves_a_line_in_the_audit(client):
    client.acting_as("user:7").for_org("acme").signals.send("approved", "order:42")
    [line] = [one for one in client.audit.list() if one.event == "signal.sent"]
    assert (line.actor_id, line.org_id) == ("7", "acme")
    assert line.detail == {"event": "approved", "key": "order:42"}


def test_the_same_secrets_are_refused_as_in_a_payload(client):
    with pytest.raises(
        SecretInPayload, match=r"pass a reference, or, for signals .*secrets='redact'"
    ) as told:
        client.signals.send("approved", payload={"password": "hunter2-and-more"})
    assert "job type" not in str(told.value)
    with pytest.raises(SecretInPayload):
        client.signals.send("approved", payload="sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc")
    assert list(client.signals.list()) == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"event": ""}, "event is empty"),
        ({"event": "e", "key": ""}, "key is empty"),
        ({"event": "e", "payload": {"n": float("nan")}}, r"payload of the signal at \$\.n"),
        ({"event": "e", "payload": "x" * 600_000}, "the payload of the signal"),
        ({"event": "e", "keep": "soon"}, "keep is 'soon'"),
        ({"event": "e", "keep": 0}, "keep is"),
    ],
)
def test_a_signal_that_makes_no_sense_is_refused(client, said, message):
    with pytest.raises(InvalidJob, match=message):
        client.signals.send(**said)
    assert list(client.signals.list()) == []


def test_an_option_that_does_not_exist_is_refused(app):
    with pytest.raises(ValueError, match='Did you mean "keep"'):
        app.signal("approved", kepp="1d")


def test_a_signal_in_a_transaction_is_there_with_its_commit_and_holds_up_nobody(runs):
    client: Any = runs.client
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42"))
    connection = client.store.connect()
    with begin(connection, client.store.database, client.store.prefix):
        assert client.within(connection).at(NOW).signals.send("approved", "order:42").woken == 0
        if client.store.database == "postgres":
            # The job's row is not locked: somebody else may change it meanwhile.
            assert client.worker.signals.wake() == 0
            other = client.store.connect()
            other.execute(f"SELECT 1 FROM {client.store.prefix}live FOR UPDATE NOWAIT")
            other.close()
    connection.close()
    assert client.at(NOW).worker.signals.wake() == 1
    assert [job.id for job in runs.claimed(NOW)] == [ctx.job.id]


def test_a_signal_in_a_transaction_that_is_rolled_back_was_never_sent(runs):
    client: Any = runs.client
    connection = client.store.connect()
    with suppress(ZeroDivisionError), begin(connection, client.store.database, client.store.prefix):
        client.within(connection).signals.send("approved")
        raise ZeroDivisionError
    connection.close()
    assert list(client.signals.list()) == []


@one_may_be_open
def test_a_signal_that_is_committed_after_the_job_has_looked_calls_it_back(runs):
    client: Any = runs.client
    ctx = runs.start()
    connection = client.store.connect()
    with begin(connection, "postgres", client.store.prefix):
        client.within(connection).at(NOW).signals.send("approved")
        # Neither sees the other.
        runs.leave(ctx, lambda: ctx.wait_for("approved"))
        assert client.at(NOW).worker.signals.wake() == 0
    connection.close()
    assert client.at(NOW).worker.signals.wake() == 1


def test_a_job_that_parks_after_its_signal_was_looked_at_is_called_back(runs):
    ctx = runs.start()
    with pytest.raises(Parked) as left:
        ctx.wait_for("approved")
    assert runs.client.at(NOW).signals.send("approved").woken == 0
    assert runs.client.at(NOW).worker.signals.wake() == 0
    runs.client.at(NOW).worker.finish([ctx.job.end_with(left.value)]).require()
    assert runs.client.at(NOW).worker.signals.wake() == 1
    assert runs.claim(NOW).wait_for("approved") is None


@one_may_be_open
def test_a_job_that_somebody_holds_is_called_back_when_it_is_free(runs):
    client: Any = runs.client
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    connection = client.store.connect()
    with begin(connection, "postgres", client.store.prefix):
        connection.execute(f"SELECT 1 FROM {client.store.prefix}live FOR UPDATE")
        assert client.at(NOW).signals.send("approved").woken == 0
        assert client.at(NOW).worker.signals.wake() == 0
    connection.close()
    assert client.at(NOW).worker.signals.wake() == 1


def test_of_many_jobs_that_park_while_signals_come_none_is_left(app):
    count = 40
    runs = Runs(app)
    for n in range(count):
        app.client.enqueue(NewJob(job_type="t", payload={"n": n}))
    jobs = [ctx for _ in range(count // 10) for ctx in runs.claimed(NOW + DAY)]
    begin_together = threading.Barrier(3)

    def park(some: list[Any]) -> None:
        begin_together.wait()
        for job in some:
            app.client.at(NOW).worker.finish(
                [job.end_with(Parked(None, "go", str(job.payload["n"])))]
            ).require()

    def signal() -> None:
        begin_together.wait()
        for n in range(count):
            app.signal("go", key=str(n))

    threads = [threading.Thread(target=park, args=(jobs[at::2],)) for at in (0, 1)]
    threads.append(threading.Thread(target=signal))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    app.client.worker.signals.wake()
    app.client.worker.promote()
    assert list(app.client.signals.awaited(limit=100)) == []
    assert app.client.jobs.count().total(JobState.QUEUED) == count


def test_prune_removes_what_is_no_longer_kept(client):
    client.at(NOW - DAY).signals.send("old", keep="1h")
    client.signals.send("new", keep="1h")
    assert client.signals.prune().done == 1
    assert [signal.event for signal in client.signals.list()] == ["new"]


def test_the_place_of_a_wait_is_short_enough_to_be_remembered():
    assert place_of("wait_for", "paid", "order:42", nth=1) == "wait_for:paid:order:42"
    assert place_of("wait_for", "paid", None, nth=3) == "wait_for:paid#3"
    long = {place_of("wait_for", "paid", "k" * 500, nth=n) for n in (1, 2)}
    assert len(long) == 2
    assert max(map(len, long)) <= 200


def test_doctor_says_which_signal_a_job_waits_for(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42"))
    said = {finding.code: finding for finding in runs.client.doctor.explain(ctx.job.id)}
    title = "it waits for event approved, key order:42, for as long as it takes"
    assert said["waiting_for_signal"].title == title
    assert "waiting_for_time" not in said


def test_doctor_says_until_when(app: Onward):
    runs = Runs(app)
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", timeout="2d")).until
    said = {finding.code: finding for finding in runs.client.doctor.explain(ctx.job.id)}
    assert said["waiting_for_signal"].title.startswith("it waits for event approved, until ")
    assert str(until.year) in said["waiting_for_signal"].title
