"""The runbook of the first document: a stuck queue, where to look, how to be sure, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onward import Onward, Unrecoverable
from tests.upkeep.doctor.facts import HOUR, codes, of


class Mail:
    """A provider that refuses until its key is renewed."""

    def __init__(self) -> None:
        self.key_is_valid = False

    def send(self) -> None:
        if not self.key_is_valid:
            raise Unrecoverable("401", hint="renew the key")


@pytest.fixture
def mail(app: Onward) -> Mail:
    """An application that sends mail, run by ticks."""
    mail = Mail()

    @app.job
    def send_customer_confirmation() -> None:
        mail.send()

    send_customer_confirmation.using(subject="booking:42").enqueue()
    app.tick()
    return mail


def test_one_question_looks_at_the_jobs_the_cron_and_the_log(app, mail):  # S0-81
    found = app.client.doctor.check()
    dead = of(found, "all_dead")
    assert dead.evidence["types"][0]["job_type"] == "send_customer_confirmation"
    assert of(found, "workers").evidence["last_tick"] is not None
    events = [record.event for record in app.client.audit.list()]
    assert events == ["job.deadlettered", "job.failed", "job.started", "job.enqueued"]


def test_it_can_be_verified_what_waits_what_failed_and_that_the_cron_ran(app, mail):  # S0-82
    found = app.client.doctor.check()
    assert of(found, "queues").title == "no ready job is waiting"
    [letter] = app.client.dead.list().items
    assert letter.job.subject == "booking:42"
    ticked = datetime.fromisoformat(of(found, "workers").evidence["last_tick"])
    assert abs((datetime.now(UTC) - ticked).total_seconds()) < 60
    assert of(found, "database").severity == "ok"


def test_after_the_cause_is_mended_the_dead_run_again(app, mail):  # S0-83
    client = app.client
    [letter] = client.dead.list().items
    mail.key_is_valid = True
    client.dead.replay([letter.job.id], reason="the key was renewed")
    later = datetime.now(UTC) + HOUR
    assert "tick_silent" in codes(client.at(later).doctor.check()), "the cron is off"
    app.tick()
    assert codes(client.doctor.check()) <= {"sqlite_version"}
    assert codes(client.doctor.explain(letter.job.id)) == set()
