"""The doctor says what a limited job waits for."""

from __future__ import annotations

from datetime import timedelta

from onward import Client, Failed, Limit
from tests.limits.permits import NOW, declared, put, started

LATER = NOW + timedelta(minutes=5, seconds=1)


def explained(client: Client, job_id: str) -> tuple[str, str]:
    [finding] = client.at(NOW).doctor.explain(job_id)
    return finding.code, finding.title


def test_who_holds_the_permits_is_named(client: Client):
    own = declared(client, sync=Limit(2))
    first, second, third = put(own, "sync/acme", 3)
    assert explained(own, third)[0] == "waits_for_permit"
    own.at(NOW).worker.limits.admit(["sync/acme"])
    own.at(NOW).worker.claim("q:default", 1, worker_id="w")
    code, title = explained(own, third)
    assert code == "limit_reached"
    held = f"2 of 2 are held by {first} (running on w), {second} (queued)"
    assert title == f"it waits for a permit of limit sync/acme: {held}"


def test_a_rate_and_a_line_are_told(client: Client):
    own = declared(client, mail=Limit(rate="1/m"), line=Limit(ordered=True))
    _, late = put(own, "mail", 2)
    own.at(NOW).worker.limits.admit(["mail"])
    started(own)
    assert explained(own, late) == ("limit_reached", "limit mail lets 1/m start, and it waits for that")
    _, behind = put(own, "line/a", 2)
    own.at(NOW).worker.limits.admit(["line/a"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(Failed({"error_class": "E"}))])
    assert explained(own, behind)[0] == "waits_in_line"


def test_a_limit_that_no_worker_knows_is_a_problem(client: Client):
    own = declared(client)
    [job] = put(own, "unheard/x")
    assert explained(own, job)[0] == "unknown_limit"
    found = {finding.code: finding for finding in own.at(NOW).doctor.check()}
    assert found["unknown_limit"].severity == "problem"
    assert "no worker has declared the limit unheard" in found["unknown_limit"].title


def test_a_check_warns_of_a_limit_for_which_jobs_have_waited_long(client: Client):
    own = declared(client, sync=Limit(1))
    put(own, "sync/acme", 3)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert "limit_reached" not in {finding.code for finding in own.at(NOW).doctor.check()}
    [found] = [
        one
        for one in own.at(LATER).doctor.check()
        if one.code == "limit_reached" and "limit_key" in one.evidence
    ]
    assert found.title == "limit sync/acme is reached; 2 jobs wait, the oldest for 5 min"
    assert found.remedy == "onward limits set --concurrency … --reason … sync"
