"""Every death is put into an alert, once, and each group tells of itself at most once a throttle."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, Failed, InvalidJob, InvalidSetting, NewJob, Onward
from onward.core.policy.policies import Policies
from onward.core.upkeep.diagnosis import Finding
from tests.failures.alerts.deaths import BUSY, HOLD, SINK, T, die, messages, only, ready
from tests.jobs.inspect.reading import rows
from tests.work.leases.dying_processes import ADA, claim

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client(client: Client) -> Client:
    return ready(client)


def test_a_death_is_one_alert_event_however_often_it_is_looked_for(client):
    # S4-45
    job = die(client)
    assert client.at(T).worker.alerts.gather() == 1
    assert client.at(T).worker.alerts.gather() == 0
    assert client.at(T + MINUTE).worker.alerts.gather(deep=True) == 0
    alert = only(client)
    assert (alert.kind, alert.count, alert.unsent) == ("job_dead", 1, 1)
    assert alert.about["job_id"] == job.id
    [told] = messages(client)
    assert (told.job_id, told.job_type, told.message, told.hint) == (job.id, "mail", "no such mailbox", "ask")
    assert messages(client, T + timedelta(hours=1)) == []


def test_many_groups_findings_and_messages_are_written_at_once(client):
    for group in range(12):
        die(client, job_type=f"mail {group}")
    assert client.at(T).worker.alerts.gather() == 12
    findings = [
        Finding(code="slo_burn", severity="warning", title="late", evidence={"category": f"c{number}"})
        for number in range(12)
    ]
    client.at(T).worker.alerts.observe(findings)
    assert {told.job_type or told.fingerprint for told in messages(client)} == {
        *(f"mail {group}" for group in range(12)),
        *(f"slo_burn:c{number}" for number in range(12)),
    }


def test_who_caused_the_death_makes_no_difference(client):
    client.at(T).worker.register("short", lease=SECOND)
    client.at(T).enqueue(NewJob(job_type="crashing", max_attempts=1))
    client.at(T).worker.claim("q:default", worker_id="short")
    later = T + MINUTE
    client.at(later).worker.rescue()
    assert client.at(later).worker.alerts.gather() == 1
    assert only(client).about["error_class"] == "WorkerLost"


def test_a_job_that_dies_again_after_a_replay_is_told_again(client):
    job = die(client)
    client.at(T).worker.alerts.gather()
    client.at(T + SECOND).dead.replay([job.id], reason="again")
    again = claim(client, T + SECOND)
    client.at(T + SECOND).worker.finish([again.end_with(BUSY)])
    assert client.at(T + SECOND).worker.alerts.gather() == 1
    assert sorted(alert.count for alert in client.alerts.list()) == [1, 1]


def test_what_died_before_the_tables_knew_of_alerts_is_not_told(client):
    client.at(EARLIER).worker.register("early", lease=timedelta(days=3650))
    client.at(EARLIER).enqueue(NewJob(job_type="old"))
    [job] = client.at(EARLIER).worker.claim("q:default", worker_id="early")
    client.at(EARLIER).worker.finish([job.end_with(BUSY)])
    assert client.worker.alerts.gather(deep=True) == 0
    assert client.at(T).worker.alerts.gather(deep=True) == 0


def test_a_death_that_is_committed_late_is_found_by_the_deep_look(client):
    die(client, now=T + timedelta(minutes=10))
    assert client.at(T + timedelta(minutes=10)).worker.alerts.gather() == 1
    die(client, now=T)
    assert client.at(T + timedelta(minutes=11)).worker.alerts.gather() == 0
    assert client.at(T + timedelta(minutes=11)).worker.alerts.gather(deep=True) == 1


def test_after_a_deep_look_earlier_deaths_are_not_read_again(client):
    die(client, now=T)
    assert client.at(T + MINUTE).worker.alerts.gather(deep=True) == 1
    rows(client, "DELETE FROM {prefix}alerted WHERE lease > 0")
    assert client.at(T + MINUTE).worker.alerts.gather() == 0
    assert client.at(T + MINUTE).worker.alerts.gather(deep=True) == 1


def test_a_clock_that_was_ahead_does_not_hide_later_deaths(client):
    die(client, now=T + timedelta(days=30))
    assert client.at(T + timedelta(days=30)).worker.alerts.gather() == 1
    die(client, now=T)
    assert client.at(T).worker.alerts.gather() == 1


def test_two_that_look_at_once_make_one_alert_of_each_death(client):
    for _ in range(20):
        die(client)
    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(lambda _: client.at(T).worker.alerts.gather(), range(4)))
    assert sum(counts) == 20
    assert only(client).count == 20


def test_deaths_of_one_fingerprint_are_one_message_and_others_have_their_own(client):
    for _ in range(3):
        die(client)
    die(client, outcome=BUSY)
    client.at(T).worker.alerts.gather()
    told = {alert.error_class: alert for alert in messages(client)}
    assert {name: alert.count for name, alert in told.items()} == {"Bounced": 3, "Busy": 1}
    assert told["Bounced"].fingerprint != told["Busy"].fingerprint
    assert told["Busy"].commands[0] == f"onward dead show {told['Busy'].fingerprint}"


def test_the_first_is_told_at_once_and_then_one_in_each_throttle_with_the_count_since(client):
    die(client)
    client.at(T).worker.alerts.gather()
    assert [alert.count for alert in messages(client)] == [1]
    for n in range(1, 5):
        die(client, now=T + n * MINUTE)
        client.at(T + n * MINUTE).worker.alerts.gather()
        assert messages(client, T + n * MINUTE) == []
    [again] = messages(client, T + 5 * MINUTE)
    assert (again.count, again.total) == (4, 5)
    assert again.id.endswith(".2")
    assert (again.first_at, again.last_at) == (T, T + 4 * MINUTE)


def test_the_throttle_is_a_setting(app: Onward):
    policies = Policies.of(alert_throttle="30s")
    with Client(store=app.client.store, policies=policies) as client:
        ready(client)
        for n in (0, 29, 30):
            die(client, now=T + n * SECOND)
            client.at(T + n * SECOND).worker.alerts.gather()
            assert len(messages(client, T + n * SECOND)) == (n != 29)
    with pytest.raises(InvalidSetting, match="alert_throttle is 'soon'"):
        Onward(alert_throttle="soon")


def test_a_message_is_held_by_who_took_it_and_then_taken_again_with_the_same_id(client):
    die(client)
    client.at(T).worker.alerts.gather()
    client.at(T).worker.alerts.prepare([SINK])
    first = client.at(T).worker.alerts.take(SINK, hold=HOLD)
    assert client.at(T + HOLD - SECOND).worker.alerts.take(SINK, hold=HOLD) is None
    # Who had it was killed.
    second = client.at(T + HOLD).worker.alerts.take(SINK, hold=HOLD)
    assert (second.alert.id, second.tries) == (first.alert.id, 2)


def test_a_message_that_a_sink_does_not_take_waits_with_its_error_and_is_given_up_at_last(client):
    die(client)
    client.at(T).worker.alerts.gather()
    client.at(T).worker.alerts.prepare([SINK])
    send = client.at(T).worker.alerts.take(SINK, hold=HOLD)
    client.at(T).worker.alerts.record_send(send, "it is away", wait=MINUTE)
    [waiting] = only(client).waiting
    assert (waiting.sink, waiting.tries, waiting.error) == (SINK, 1, "it is away")
    assert waiting.next_at == T + MINUTE
    assert client.at(T + 59 * SECOND).worker.alerts.prepare([SINK]) == frozenset()
    assert client.at(T + MINUTE).worker.alerts.prepare([SINK]) == {SINK}
    send = client.at(T + MINUTE).worker.alerts.take(SINK, hold=HOLD)
    client.at(T + MINUTE).worker.alerts.record_send(send, "it is gone", wait=None)
    assert only(client).waiting[0].next_at is None
    assert client.at(T + timedelta(days=1)).worker.alerts.prepare([SINK]) == frozenset()


def test_a_newer_message_replaces_the_one_that_waits_and_carries_both_counts(client):
    die(client)
    client.at(T).worker.alerts.gather()
    client.at(T).worker.alerts.prepare([SINK, "other"])
    send = client.at(T).worker.alerts.take(SINK, hold=HOLD)
    assert messages(client, sink="other")[0].count == 1
    client.at(T).worker.alerts.record_send(send, "away", wait=timedelta(hours=1))
    die(client, now=T + MINUTE)
    die(client, now=T + MINUTE)
    client.at(T + MINUTE).worker.alerts.gather()
    client.at(T + 5 * MINUTE).worker.alerts.prepare([SINK, "other"])
    assert not client.at(T + 5 * MINUTE).worker.alerts.record_send(send), "a newer one has taken its place"
    [mine] = messages(client, T + 5 * MINUTE)
    [others] = messages(client, T + 5 * MINUTE, sink="other")
    assert (mine.count, others.count, mine.total) == (3, 2, 3)


def test_a_muted_group_is_counted_and_not_told(client):
    die(client)
    client.at(T).worker.alerts.gather()
    group = only(client).fingerprint
    assert client.at(T).acting_as(ADA).alerts.mute(group, reason="known", for_="1h")
    assert messages(client) == []
    die(client, now=T + MINUTE)
    client.at(T + MINUTE).worker.alerts.gather()
    muted = only(client.at(T + MINUTE))
    assert (muted.count, muted.unsent, muted.mute_reason) == (2, 0, "known")
    assert (muted.muted_until, muted.mute_actor_id) == (T + timedelta(hours=1), "ada")
    assert messages(client, T + MINUTE) == []
    after = T + timedelta(hours=1)
    die(client, now=after)
    client.at(after).worker.alerts.gather()
    assert only(client.at(after)).muted_at is None
    assert [alert.count for alert in messages(client, after)] == [1]


def test_muting_takes_back_what_waits_and_unmuting_tells_of_the_next_one(client):
    die(client)
    client.at(T).worker.alerts.gather()
    client.at(T).worker.alerts.prepare([SINK])
    group = only(client).fingerprint
    assert client.at(T).alerts.mute(group, reason="known")
    assert client.at(T).worker.alerts.take(SINK, hold=HOLD) is None
    assert client.at(T + timedelta(days=365)).alerts.unmute(group, reason="fixed")
    assert not client.at(T + timedelta(days=365)).alerts.unmute(group)
    die(client, now=T + timedelta(days=365))
    client.at(T + timedelta(days=365)).worker.alerts.gather()
    assert len(messages(client, T + timedelta(days=365))) == 1


def test_muting_is_audited_and_needs_a_reason(client):
    die(client)
    client.at(T).worker.alerts.gather()
    group = only(client).fingerprint
    ada = client.at(T).acting_as(ADA)
    ada.alerts.mute(group, reason="token=abcdef1234567890abcdef", for_="2h")
    ada.alerts.unmute(group)
    muted, unmuted = [record for record in client.audit.export() if record.event.startswith("alert.")]
    assert (muted.event, muted.actor_id, unmuted.event) == ("alert.muted", "ada", "alert.unmuted")
    assert (muted.detail["fingerprint"], muted.detail["seconds"]) == (group, 7200)
    assert "abcdef1234567890" not in str(muted.detail)
    with pytest.raises(InvalidJob, match="reason is empty"):
        client.alerts.mute(group, reason="")
    assert not client.alerts.mute("nothing", reason="why")
    assert not client.alerts.unmute("nothing")


def finding(code: str = "stuck_jobs", **evidence: object) -> Finding:
    return Finding(code=code, severity="problem", title="3 jobs", evidence=evidence, remedy="onward doctor")


def test_a_finding_is_told_when_it_comes_and_resolved_when_it_goes(client):
    client.at(T).worker.alerts.observe([finding(), finding("silent_schedule", schedule="nightly")])
    told = {alert.fingerprint: alert for alert in messages(client)}
    assert set(told) == {"stuck_jobs", "silent_schedule:nightly"}
    assert told["stuck_jobs"].commands == ("onward doctor",)
    client.at(T + MINUTE).worker.alerts.observe([finding()])
    assert messages(client, T + MINUTE) == [], "it goes on, and was told"
    open_ones = {alert.fingerprint for alert in client.alerts.list() if alert.resolved_at is None}
    assert open_ones == {"stuck_jobs"}
    client.at(T + 2 * MINUTE).worker.alerts.observe([])
    client.at(T + 3 * MINUTE).worker.alerts.observe([finding()])
    assert messages(client, T + 3 * MINUTE) == [], "it came back within the throttle"
    [again] = messages(client, T + 5 * MINUTE)
    assert (again.fingerprint, again.total) == ("stuck_jobs", 2)


def test_the_id_of_a_message_fits_into_a_header(client):
    client.at(T).worker.alerts.observe([finding("silent_schedule", schedule="nächtlich, um 3")])
    [told] = messages(client)
    assert told.id == "silent_schedule:n%C3%A4chtlich%2C%20um%203.1"
    assert told.fingerprint == "silent_schedule:nächtlich, um 3"


def test_a_finding_that_goes_on_is_told_again_after_an_hour(client):
    told = []
    for minutes in range(0, 125, 5):
        client.at(T + minutes * MINUTE).worker.alerts.observe([finding()])
        told += [minutes for _ in messages(client, T + minutes * MINUTE)]
    assert told == [0, 60, 120]


def test_deaths_are_not_resolved_by_the_absence_of_findings(client):
    die(client)
    client.at(T).worker.alerts.gather()
    client.at(T).worker.alerts.observe([])
    assert only(client).resolved_at is None
    assert len(messages(client)) == 1


def test_old_marks_and_alerts_are_removed_but_no_death_is_told_twice(client):
    for minutes in (0, 20, 40, 60):
        die(client, now=T + minutes * MINUTE)
        client.at(T + minutes * MINUTE).worker.alerts.gather(deep=True)
    client.at(T + 61 * MINUTE).worker.alerts.prune()
    # Two deaths that a deep look comes back to, and the row of no job.
    assert len(rows(client, "SELECT job_id FROM {prefix}alerted")) == 3
    assert client.at(T + 61 * MINUTE).worker.alerts.gather(deep=True) == 0
    messages(client, T + 61 * MINUTE)
    client.at(T + timedelta(days=31)).worker.alerts.prune()
    assert list(client.alerts.list()) == []
    assert client.at(T + timedelta(days=31)).worker.alerts.gather(deep=True) == 0


def test_the_marks_of_a_storm_of_deaths_are_removed(client):
    made = "00000000-0000-7000-8000-%012d"
    marks = ", ".join(f"('{made % number}', 1, {{at}})" for number in range(6000))
    at = "'2020-01-01T00:00:00Z'" if client.store.database == "postgres" else "0"
    rows(client, f"INSERT INTO {{prefix}}alerted (job_id, lease, at) VALUES {marks.format(at=at)}")
    assert client.worker.alerts.prune() == 6000


def test_alerts_are_listed_page_by_page_also_those_of_one_instant(client):
    for number in range(5):
        outcome = Failed({"error_class": f"Lost{number}", "message": "gone"}, retryable=False)
        die(client, outcome=outcome, now=T + number // 3 * timedelta(seconds=1))
    client.at(T + timedelta(seconds=2)).worker.alerts.gather()
    everything = client.alerts.list()
    assert [alert.last_at for alert in everything] == [T + timedelta(seconds=1)] * 2 + [T] * 3
    pages = [client.alerts.list(limit=2)]
    while pages[-1].next_cursor is not None:
        pages.append(client.alerts.list(limit=2, cursor=pages[-1].next_cursor))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [alert for page in pages for alert in page] == list(everything)


@pytest.mark.parametrize("kind", ["", "a\0b", "\ud800", 5])
def test_what_is_no_kind_of_alert_is_refused(client, kind):
    with pytest.raises(InvalidJob, match="kind"):
        client.alerts.list(kind=kind)
