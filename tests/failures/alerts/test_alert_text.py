"""What an alert says to people, and what it never says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.categories import HUBSPOT
from onward import Category, Client, Failed, InvalidSetting, Redaction, category
from onward.core.failures.alert import (
    about_death,
    about_finding,
    error_text,
    finding_fingerprint,
    group_of,
    heading,
    text_of,
)
from onward.core.secrets.redaction import REDACTION
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.error_record import ErrorRecord
from tests.apps import with_categories
from tests.failures.alerts.deaths import T, die, messages, ready
from tests.failures.alerts.samples import alert

SCOPES = "https://crm.example/apps/4711/scopes"
MISSING_SCOPES = Failed(
    {
        "error_class": "MissingScopes",
        "message": "403: this app hasn't been granted crm.objects.contacts.write",
        "rule": "http_status",
        "status": 403,
        "hint": "grant the missing scopes to the private app",
        "link": SCOPES,
    },
    retryable=False,
)
AWAY = Failed({"error_class": "ServerError", "message": "503 Service Unavailable"})

UNRECOVERABLE_TEXT = """\
integration_error: crm.sync_contact died: unrecoverable
Job: {job} (crm.sync_contact)
Attempts: 1 of 6 (retries: 0)
Last error: MissingScopes: 403: this app hasn't been granted crm.objects.contacts.write
Reason: unrecoverable
Hint: grant the missing scopes to the private app
Link: https://crm.example/apps/4711/scopes
Manual intervention may be required.
Next: onward dead show {group}
Next: onward dead replay {group} --reason "…"
Not again: onward alerts mute {group} --reason "…\""""

EXHAUSTED_TEXT = """\
integration_error: crm.sync_contact died: attempts exhausted
Job: {job} (crm.sync_contact)
Attempts: 6 of 6 (retries: 5)
Last error: ServerError: 503 Service Unavailable
Reason: attempts exhausted
Manual intervention may be required.
Next: onward dead show {group}
Next: onward dead replay {group} --reason "…"
Not again: onward alerts mute {group} --reason "…\""""


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def test_the_jobs_of_an_integration_raise_integration_errors():
    assert HUBSPOT.alert == "integration_error"
    assert category("default").alert == "job_dead"
    with pytest.raises(InvalidSetting, match="alert is 'what now'"):
        Category(name="mine", alert="what now")


def test_a_missing_scope_is_an_integration_error_with_a_link_to_the_scopes(client: Client):
    # S3-23, S3-30
    ready(client)
    job = die(client, outcome=MISSING_SCOPES, job_type="crm.sync_contact", category="hubspot")
    client.at(T).worker.alerts.gather()
    [told] = messages(client)
    assert text_of(told) == UNRECOVERABLE_TEXT.format(job=job.id, group=told.fingerprint)
    assert (told.kind, told.status, told.link) == ("integration_error", 403, SCOPES)


def test_after_the_last_retry_the_job_is_dead_and_somebody_is_told_of_its_retries(client: Client):
    # S3-24, S3-27
    ready(client)
    now = T
    die(client, outcome=AWAY, job_type="crm.sync_contact", category="hubspot")
    for _ in range(5):
        assert client.at(now).worker.alerts.gather() == 0, "it is tried again, and nobody has to know"
        now += timedelta(hours=2)
        client.at(now).worker.promote()
        [job] = client.at(now).worker.claim("q:default", worker_id="w")
        client.at(now).worker.finish([job.end_with(AWAY)])
    client.at(now).worker.alerts.gather()
    [told] = messages(client, now)
    assert text_of(told) == EXHAUSTED_TEXT.format(job=job.id, group=told.fingerprint)
    assert (told.attempt, told.max_attempts) == (6, 6)


def test_several_are_told_in_one_text_with_their_count():
    several = alert(count=3, total=17)
    assert heading(several) == "integration_error: crm.sync_contact died: unrecoverable (3 times)"
    assert "Since 2026-05-01T12:00:00Z: 17 times" in text_of(several).splitlines()


def test_a_finding_is_told_with_its_evidence_and_its_remedy():
    finding = Finding(
        code="silent_schedule",
        severity="warning",
        title="nightly has not run since yesterday",
        evidence={
            "schedule": "nightly",
            "late_by": timedelta(hours=3),
            "since": T,
            "api_key": "abcdef0123456789",
            "types": [{"job_type": "a\nb", "jobs": 3}],
        },
        remedy="onward schedules run nightly",
    )
    about = about_finding(finding, REDACTION)
    assert finding_fingerprint(finding) == "silent_schedule:nightly"
    assert (about["kind"], about["severity"]) == ("silent_schedule", "warning")
    assert about["evidence"]["late_by"] == "3:00:00"
    assert about["evidence"]["types"] == [{"job_type": "a b", "jobs": 3}]
    assert "Since: 2100-01-01T00:00:00Z" in text_of(alert(**about)).splitlines()
    assert "abcdef0123456789" not in str(about)
    assert about["commands"] == ("onward schedules run nightly",)


def test_what_is_told_has_no_secrets_and_no_control_characters():
    error = {
        "error_class": "Odd\x1b[31m",
        "message": "first\nline pin_code=98765432 password=hunter2hunter2\x00\u202e",
        "hint": "a\r\nBcc: all",
        "link": "https://example.com/?token=abcdef0123456789abcdef",
        "status": "403",
    }
    job = {"job_id": "1", "job_type": "a\nb", "org_id": "o\x07", "attempt": 1}
    about = about_death("job_dead", job, ErrorRecord.of(error), Redaction(names=["pin_code"]))
    assert (about["error_class"], about["hint"], about["org_id"]) == ("Odd", "a Bcc: all", "o")
    assert about["message"].startswith("first line ")
    assert about["title"] == "a b died: for no stated reason"
    assert about["status"] is None
    for secret in ("98765432", "hunter2", "abcdef0123456789"):
        assert secret not in str(about)
    assert not {"\n", "\x1b", "\0", "\u202e"} & set("".join(map(str, about.values())))


@pytest.mark.parametrize("kept", ["$(reboot)", "; rm -rf /", "", 7, None, "0123456789abc"])
def test_a_fingerprint_that_is_none_never_gets_into_a_command(kept):
    error = ErrorRecord.of({"error_class": "E", "message": "m", "fingerprint": kept})
    group = group_of("t", error)
    assert len(group) == 12
    assert group == group_of("t", ErrorRecord("E", "m"))
    commands = about_death("k", {"job_type": "t"}, error, REDACTION)["commands"]
    assert commands[0] == f"onward dead show {group}"


def test_a_name_from_outside_is_quoted_in_a_command():
    text = text_of(alert(fingerprint="unserved_queue:$(reboot)"))
    assert "onward alerts mute 'unserved_queue:$(reboot)'" in text


def test_a_long_message_is_cut():
    about = about_death("k", {"job_type": "t"}, ErrorRecord(message="x" * 10_000), REDACTION)
    assert len(about["message"]) == 500


def test_an_error_that_can_not_be_shown_is_told_all_the_same():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert error_text(Mute(), REDACTION) == "Mute: it can't be shown"
