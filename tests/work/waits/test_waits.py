"""A handler waits for an instant or a signal: its job leaves its slot, burns no attempt, and comes back."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from onward import InvalidJob, InvalidSetting, JobState, NewJob, Onward, WaitTimedOut
from onward.connections import begin
from onward.core.bulk import Bulk
from onward.core.work.wait import NEVER
from onward.errors import TransactionOpen
from onward.results import Parked
from tests.work.waits.wait_runs import NOW, Runs

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def test_a_job_sleeps_until_an_instant_in_no_slot_and_burns_no_attempt(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.sleep_until(NOW + DAY))
    job = runs.client.jobs.get(ctx.job.id)
    assert (job.state, job.run_at, job.attempt) == (JobState.SCHEDULED, NOW + DAY, 0)
    assert runs.claimed(NOW + DAY - HOUR) == []
    back = runs.claim(NOW + DAY)
    back.sleep_until(NOW + DAY)
    assert back.job.attempt == 1
    assert [run.outcome for run in runs.client.jobs.attempts(job.id)] == ["parked", None]


def test_a_park_is_in_the_audit_with_what_is_waited_for(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42", timeout="1d"))
    [parked] = [event for event in runs.client.jobs.events(ctx.job.id) if event.event == "job.parked"]
    assert parked.detail["event"] == "approved"
    assert parked.detail["key"] == "order:42"
    assert datetime.fromisoformat(parked.detail["until"]) == runs.client.jobs.get(ctx.job.id).run_at


def test_an_instant_without_a_time_zone_is_refused(runs):
    with pytest.raises(InvalidSetting, match="give a datetime with a time zone"):
        runs.start().sleep_until(NOW.replace(tzinfo=None))


def test_how_long_a_job_sleeps_counts_from_when_it_first_came_there(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.sleep_for("2d")).until
    assert isinstance(until, datetime)
    early = runs.retry(runs.claim(until), until)
    early.sleep_for("2d")
    assert runs.leave(early, lambda: early.sleep_for("2d"), until).until >= until


def test_a_sleep_that_has_a_name_is_known_by_it_wherever_it_stands(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.sleep_for("2d", name="cooling")).until
    back = runs.claim(until)
    with pytest.raises(Parked):
        back.sleep_for("9d")
    back.sleep_for("2d", name="cooling")


def test_a_wait_lasts_no_longer_than_to_the_deadline_of_its_job(runs):
    ctx = runs.start(deadline=NOW + HOUR)
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    assert runs.client.jobs.get(ctx.job.id).run_at == NOW + HOUR


def test_a_job_waits_for_its_signal_however_long_that_takes(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42"))
    assert runs.client.jobs.get(ctx.job.id).run_at == NEVER
    assert runs.claimed(NOW + 1000 * DAY) == []
    runs.client.at(NOW + HOUR).signals.send("approved", "order:42", {"by": "ada"}, keep="3650d")
    assert runs.claim(NOW + HOUR).wait_for("approved", "order:42") == {"by": "ada"}


def test_a_signal_of_another_event_or_key_wakes_nobody(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42"))
    for event, key in (("approved", "order:43"), ("approved", None), ("refused", "order:42")):
        assert runs.client.at(NOW).signals.send(event, key).woken == 0
    assert runs.client.jobs.get(ctx.job.id).run_at == NEVER


def test_a_signal_that_came_before_the_wait_is_found(runs):
    runs.client.signals.send("approved", "order:42", 7)
    assert runs.start().wait_for("approved", "order:42") == 7


def test_a_signal_is_seen_by_everyone_who_waits_for_it(runs):
    for n in range(3):
        ctx = runs.start()
        runs.leave(ctx, partial(ctx.wait_for, "open", str(n // 2)))
    assert runs.client.at(NOW).signals.send("open", "0", "now").woken == 2
    assert len(runs.claimed(NOW)) == 2


def test_each_wait_of_one_run_has_a_signal_of_its_own_the_oldest_first(runs):
    for n in (1, 2):
        runs.client.signals.send("paid", "order:42", n)
    ctx = runs.start()
    assert [ctx.wait_for("paid", "order:42"), ctx.wait_for("paid", "order:42")] == [1, 2]
    runs.leave(ctx, lambda: ctx.wait_for("paid", "order:42"))
    assert runs.client.at(NOW).worker.signals.wake() == 0, "the two that it had are none for the third wait"
    assert runs.client.at(NOW).signals.send("paid", "order:42", 3).woken == 1
    back = runs.claim(NOW)
    assert [back.wait_for("paid", "order:42") for _ in range(3)] == [1, 2, 3]


def test_what_a_wait_gave_is_remembered_also_when_its_signal_is_gone(runs):
    runs.client.at(NOW).signals.send("approved", "order:42", "yes", keep="1h")
    ctx = runs.start()
    assert runs.client.worker.signals.find(ctx.job, "approved", "order:42") is not None
    assert ctx.wait_for("approved", "order:42") == "yes"
    assert runs.client.at(NOW + DAY).signals.prune().done == 1
    assert runs.retry(ctx).wait_for("approved", "order:42") == "yes"


def test_a_signal_that_is_no_longer_kept_is_not_found(runs):
    runs.client.at(NOW - DAY).signals.send("approved", "order:42", keep="1h")
    with pytest.raises(Parked):
        runs.start().wait_for("approved", "order:42")


def test_a_time_out_counts_from_the_first_time_and_raises(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42", timeout="2d")).until
    back = runs.claim(until)
    with pytest.raises(WaitTimedOut, match=r"no signal 'approved' with key 'order:42' came in time") as late:
        back.wait_for("approved", "order:42", timeout="2d")
    assert isinstance(late.value, TimeoutError)


def test_after_a_time_out_a_default_is_given_if_there_is_one(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", timeout="2d")).until
    assert runs.claim(until).wait_for("approved", timeout="2d", default=None) is None


def test_a_time_out_is_remembered_though_the_signal_comes_later(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", timeout="2d")).until
    back = runs.claim(until)
    assert back.wait_for("approved", timeout="2d", default="late") == "late"
    runs.client.signals.send("approved")
    assert runs.retry(back, until).wait_for("approved", timeout="2d", default="late") == "late"


def test_a_wait_that_timed_out_can_be_reset_and_waits_again(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", "order:42", timeout="2d")).until
    back = runs.claim(until)
    with pytest.raises(WaitTimedOut):
        back.wait_for("approved", "order:42", timeout="2d")
    runs.client.effects.reset(ctx.job.id, "wait_for:approved:order:42", reason="it was approved after all")
    runs.client.signals.send("approved", "order:42", "yes")
    assert runs.retry(back, until).wait_for("approved", "order:42", timeout="2d") == "yes"


def test_a_wait_in_the_jobs_own_transaction_is_refused(runs):
    ctx = runs.start()
    with pytest.raises(TransactionOpen, match="wait before it begins"), ctx.transaction():
        ctx.sleep_until(NOW + DAY)


def test_a_transaction_after_a_wait_ends_the_job(runs):
    runs.client.signals.send("approved")
    ctx = runs.start()
    ctx.wait_for("approved")
    with ctx.transaction() as tx:
        tx.result = "done"
    assert runs.client.jobs.get(ctx.job.id).result == "done"


@pytest.mark.parametrize(
    ("wait", "message"),
    [
        (lambda ctx: ctx.wait_for(""), "event is empty"),
        (lambda ctx: ctx.wait_for("e", "k" * 1001), "takes 1001 bytes"),
        (lambda ctx: ctx.wait_for("e", timeout="soon"), "timeout is 'soon'"),
        (lambda ctx: ctx.sleep_for(-1), "length is -1; give a length of time"),
        (lambda ctx: ctx.sleep_for("1d", name="n" * 300), "the most is 200"),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(runs, wait, message):
    with pytest.raises((InvalidJob, InvalidSetting), match=message):
        wait(runs.start())


def test_a_job_that_is_cancelled_while_it_runs_does_not_park(runs):
    ctx = runs.start()
    runs.client.jobs.cancel(ctx.job.id, reason="no longer wanted")
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    assert runs.client.jobs.get(ctx.job.id).state == JobState.CANCELLED
    assert list(runs.client.signals.awaited()) == []


def test_a_parked_job_that_is_cancelled_is_not_called_back(runs):
    ctx = runs.start()
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    runs.client.jobs.cancel(ctx.job.id, reason="no longer wanted")
    assert runs.client.signals.send("approved").woken == 0
    assert runs.client.jobs.get(ctx.job.id).state == JobState.CANCELLED


def test_what_is_left_of_waits_that_are_over_is_pruned(runs):
    stays, goes = runs.start(), runs.start()
    for ctx in (stays, goes):
        runs.leave(ctx, lambda ctx=ctx: ctx.wait_for("approved"))
    runs.client.jobs.cancel(goes.job.id, reason="no longer wanted")
    dry = runs.client.maintenance.prune(dry_run=True)
    rest = runs.client.maintenance.prune(cursor=dry.next_cursor, dry_run=True)
    assert (dry.counts, rest.counts, rest.next_cursor) == ({"waits": 1}, {}, None)
    assert [runs.client.maintenance.prune().counts, runs.client.signals.prune()] == [{"waits": 1}, Bulk()]
    assert [one.job_id for one in runs.client.signals.awaited("approved")] == [stays.job.id]


def test_a_job_that_was_reset_while_it_ran_starts_again_instead_of_parking(runs):
    ctx = runs.start(key="k")
    later = NewJob(job_type="t", key="k", on_conflict="reset", payload={"n": 2}, run_at=NOW + DAY)
    assert runs.client.at(NOW).enqueue(later).change == "rerun_requested"
    runs.leave(ctx, lambda: ctx.wait_for("approved"))
    job = runs.client.jobs.get(ctx.job.id)
    assert (job.state, job.run_at, job.payload) == (JobState.SCHEDULED, NOW + DAY, {"n": 2})
    assert list(runs.client.signals.awaited()) == []


def test_a_run_whose_lease_was_lost_parks_nothing(runs):
    ctx = runs.start()
    runs.client.at(NOW).worker.rescue_worker(str(ctx.job.worker_id))
    assert runs.client.at(NOW).worker.finish([ctx.job.end_with(Parked(None, "approved"))]).lost == {
        ctx.job.id
    }
    assert list(runs.client.signals.awaited()) == []


def test_a_job_parks_with_what_it_waits_for_or_not_at_all(runs):
    ctx = runs.start()
    client: Any = runs.client
    connection = client.store.connect()
    with begin(connection, client.store.database, client.store.prefix):
        connection.execute(f"DROP TABLE {client.store.prefix}awaited")
    connection.close()
    with pytest.raises(Exception, match="awaited"):
        client.at(NOW).worker.finish([ctx.job.end_with(Parked(None, "approved"))])
    assert client.jobs.get(ctx.job.id).state == JobState.RUNNING


def test_a_job_that_waits_for_its_back_off_is_not_called_by_what_it_waited_for_before(runs):
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.wait_for("approved", timeout="1d")).until
    back = runs.claim(until)
    runs.client.at(until).worker.finish([back.job.end_with(Parked(until + DAY))])
    assert runs.client.signals.send("approved").woken == 0
    assert runs.client.jobs.get(ctx.job.id).run_at == until + DAY


def test_without_a_wait_a_dry_run_remembers_nothing_but_with_one_it_ends(request, tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/dry.db", dry_run=True)
    runs = Runs(app)
    ctx = runs.start()
    until = runs.leave(ctx, lambda: ctx.sleep_for("2d")).until
    runs.claim(until).sleep_for("2d")
    app.close()
