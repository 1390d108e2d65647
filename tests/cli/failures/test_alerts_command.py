"""`onward alerts`: lists, mutes, unmutes, and tries out the sinks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, Failed, NewJob

APP = """
from onward import Onward, LogSink, CallableSink

told = []
app = Onward(alerts=[CallableSink(told.append, name="list")])


def broken(alert):
    raise OSError("password=hunter2hunter2 is wrong")
"""


@pytest.fixture
def group(folder) -> str:
    """A database with an alert that a sink did not take; gives its fingerprint."""
    now = datetime.now(UTC) + timedelta(seconds=1)
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.at(now).worker.register("w")
        client.at(now).enqueue(NewJob(job_type="mail"))
        [job] = client.at(now).worker.claim("q:default", worker_id="w")
        client.at(now).worker.finish(
            [job.end_with(Failed({"error_class": "E", "message": "no\nway"}, retryable=False))]
        )
        client.at(now).worker.alerts.gather()
        client.at(now).worker.alerts.prepare(["hook"])
        send = client.at(now).worker.alerts.take("hook", hold=timedelta(seconds=1))
        assert send is not None
        client.at(now).worker.alerts.record_send(send, "it is away", wait=timedelta(hours=1))
        return client.alerts.list()[0].fingerprint


def test_alerts_are_listed_for_people_and_for_programs(onward, group):
    ran = onward("alerts", "list")
    first, second = ran.out.splitlines()
    assert first.endswith(f"{group}  job_dead  once  mail died: unrecoverable")
    assert second == "  hook: tried once: it is away"
    [alert] = json.loads(onward("alerts", "list", "--json").out)["items"]
    assert (alert["fingerprint"], alert["count"], alert["about"]["message"]) == (group, 1, "no way")
    assert alert["waiting"][0]["error"] == "it is away"
    assert onward("alerts", "list", "--kind", "slo_burn").err == "no alerts\n"


def test_a_group_is_muted_and_unmuted_by_name(onward, group, folder):
    ran = onward("alerts", "mute", group, "--reason", "known", "--for", "8h", "--actor", "user:ada")
    assert (ran.code, ran.err) == (0, f"muted: {group}\n")
    assert "  muted until 2" in onward("alerts", "list").out
    assert onward("alerts", "unmute", group).code == 0
    again = onward("alerts", "unmute", group)
    assert (again.code, again.err) == (1, f"nothing unmuted: {group}; it was not muted\n")
    assert onward("alerts", "mute", "ffff", "--reason", "x").code == 1
    assert onward("alerts", "mute", group).code == 2
    assert onward("alerts", "mute", group, "--reason", "x", "--for", "soon").code == 2
    with Client(f"sqlite:///{folder}/onward.db") as client:
        muted, unmuted = [record for record in client.audit.export() if record.event.startswith("alert.")]
    assert (muted.actor_type, muted.actor_id, unmuted.actor_type) == ("user", "ada", "cli")


def test_the_sinks_are_tried_out(onward, folder):
    (folder / "app.py").write_text(APP)
    ran = onward("alerts", "test", "app:app")
    assert (ran.code, ran.out) == (0, "✓ list\n")
    (folder / "jobs.py").write_text(APP + "\napp.alert_sink(broken)\n")
    ran = onward("alerts", "test", "jobs:app")
    assert ran.code == 1
    good, bad = ran.out.splitlines()
    assert good == "✓ list"
    assert bad.startswith("✗ function:jobs.broken: OSError: password=")
    assert "hunter2" not in ran.out
    (folder / "shop.py").write_text("from onward import Onward\napp = Onward(alerts=[])\n")
    assert "the app has no sinks" in onward("alerts", "test", "shop:app").err
