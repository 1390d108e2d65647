"""Every rule as a table: these facts, this finding, and no other."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from onward.core.failures.alert import raises_alert
from onward.core.failures.breaker import Breaker
from onward.core.limits.pause import TypeSkip
from onward.core.policy.category import Slo
from onward.core.upkeep.diagnosis import Finding
from onward.core.upkeep.facts import (
    Burn,
    DeadSeen,
    FailureSeen,
    Hold,
    HolderSeen,
    RunningSeen,
    SinkSeen,
    TypeSeen,
)
from onward.core.upkeep.findings import diagnose
from tests.upkeep.doctor.facts import HOUR, MINUTE, NOW, SECOND, a_tick, a_worker, codes, facts, of, waiting


def hold(scope: Any, name: str = "") -> Hold:
    return Hold(scope, name, "why", "user:ada", NOW - HOUR)


def kind(queue: str = "q:a", job_type: str = "t") -> TypeSeen:
    return TypeSeen(queue, job_type, "default", 1, NOW)


def died(last_hour: int = 0, hour_before: int = 0, jobs: int = 1) -> DeadSeen:
    return DeadSeen("mail", "AuthError", max(jobs, last_hour + hour_before), last_hour, hour_before, NOW)


BUSY = [RunningSeen("w", "q:a", 2)]
KNOWS_X = a_worker(job_types=frozenset("x"))
SKIP = TypeSkip("t", "moving", "user", "ada", NOW)
SLO = Slo(MINUTE, 0.9)
LOST = [a_worker(f"w{at}", seen=MINUTE, lost_at=NOW - 29 * SECOND, host="box") for at in range(3)]

# What was read, and the codes of what is wrong.
CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "all is well": ({"ready": [waiting()], "types": [kind()]}, set()),
    "nothing waits": ({}, set()),
    "the gate is closed": ({"holds": [hold("gate")]}, {"gate_closed"}),
    "a queue is paused": ({"holds": [hold("queue", "q:a")]}, {"queue_paused"}),
    "a job type is paused": ({"holds": [hold("job_type", "t")]}, {"job_type_paused"}),
    "a job type is skipped": ({"skips": [SKIP]}, {"job_type_skipped"}),
    "an org is paused": ({"holds": [hold("org", "acme")]}, {"org_paused"}),
    "a budget is spent": ({"holds": [hold("budget", "acme")]}, {"budget_spent"}),
    "nobody ever worked": ({"workers": []}, {"no_worker"}),
    "the last worker is gone": ({"workers": [a_worker(seen=HOUR)]}, {"no_worker"}),
    "a tick came just now": ({"workers": [a_tick(MINUTE)]}, set()),
    "ticks of every hour": ({"workers": [a_tick(90 * MINUTE, "b"), a_tick(150 * MINUTE, "a")]}, set()),
    "ticks of every hour, and one by hand": (
        {"workers": [a_tick(ago * MINUTE, str(ago)) for ago in (40, 41, 101, 161)]}, set(),
    ),
    "ticks of every minute after a night without any": (
        {"workers": [a_tick(ago * MINUTE, str(ago)) for ago in (10, 11, 12, 600, 601)]}, {"tick_silent"},
    ),
    "jobs that are due wait for the next tick": (
        {"workers": [a_tick(4 * MINUTE)], "overdue": 3, "next_due": NOW - 3 * MINUTE}, set(),
    ),
    "jobs that are due wait for long though ticks come": (
        {"workers": [a_tick(MINUTE)], "overdue": 3, "next_due": NOW - HOUR}, {"silent_schedule"},
    ),
    "ticks that ended": (
        {"workers": [a_tick(150 * MINUTE, "b"), a_tick(210 * MINUTE, "a")]}, {"tick_silent"},
    ),
    "a single tick, long ago": ({"workers": [a_tick(HOUR)]}, {"tick_silent"}),
    "a worker after ticks": ({"workers": [a_tick(2 * HOUR), a_worker(seen=HOUR)]}, {"no_worker"}),
    "another queue is served": (
        {"ready": [waiting("q:b")], "workers": [a_worker(queues={"q:a": None})]}, {"unserved_queue"},
    ),
    "the queue is served": ({"ready": [waiting()], "workers": [a_worker(queues={"q:a": 1})]}, set()),
    "the type is known to nobody": (
        {"ready": [waiting()], "types": [kind()], "workers": [KNOWS_X]},
        {"unknown_job_type"},
    ),
    "the type is known elsewhere": (
        {
            "ready": [waiting()],
            "types": [kind()],
            "workers": [
                a_worker("a", queues={"q:a": None}, job_types=frozenset("x")),
                a_worker("b", queues={"q:b": None}, job_types=frozenset("t")),
            ],
        },
        {"unknown_job_type"},
    ),
    "a type was given back": (
        {"failures": [FailureSeen("t", "UnknownJobType", 1)], "workers": [KNOWS_X]},
        {"unknown_job_type"},
    ),
    "a type was given back, and is known now": ({"failures": [FailureSeen("t", "UnknownJobType", 1)]}, set()),
    "every slot is taken": ({"ready": [waiting(since=2 * MINUTE)], "running": BUSY}, {"limit_reached"}),
    "every slot of the queue is taken": (
        {
            "ready": [waiting(since=2 * MINUTE)],
            "running": [RunningSeen("w", "q:a", 1)],
            "workers": [a_worker(queues={"q:a": 1, "q:b": None})],
        },
        {"limit_reached"},
    ),
    "every slot is taken, for a moment": ({"ready": [waiting(since=MINUTE)], "running": BUSY}, set()),
    "a slot is free": ({"ready": [waiting(since=2 * MINUTE)], "running": BUSY[:0]}, set()),
    "a slot is free, and nobody claims": ({"ready": [waiting(since=6 * MINUTE)]}, {"not_claimed"}),
    "it waits for what is paused": (
        {"ready": [waiting(since=6 * MINUTE)], "holds": [hold("org", "acme")]}, {"org_paused"},
    ),
    "silent workers hold jobs": ({"silent": [HolderSeen("gone", NOW - MINUTE, 4)]}, {"stuck_jobs"}),
    "a worker is silent since now": ({"silent": [HolderSeen("gone", NOW - 9 * SECOND, 4)]}, set()),
    "a worker that nobody knows holds jobs": ({"silent": [HolderSeen("gone", None, 1)]}, {"stuck_jobs"}),
    "nobody promotes": ({"overdue": 2, "next_due": NOW - 2 * MINUTE}, {"silent_schedule"}),
    "the next is due later": ({"next_due": NOW + MINUTE}, set()),
    "three workers vanished": ({"workers": [a_worker(), *LOST]}, {"lease_storm"}),
    "two workers vanished": ({"workers": [a_worker(), *LOST[1:]]}, set()),
    "three workers vanished long ago": (
        {"workers": [a_worker(), *(a_worker(str(at), seen=HOUR, lost_at=NOW) for at in range(3))]}, set(),
    ),
    "three workers retired": (
        {
            "workers": [
                a_worker(),
                *(a_worker(str(at), lost_at=NOW - SECOND, lease_until=NOW - SECOND) for at in range(3)),
            ]
        },
        set(),
    ),
    "all are dead": ({"dead": [died()], "newest_ended": {"dead": 5}}, {"all_dead"}),
    "some are dead": ({"dead": [died()], "newest_ended": {"dead": 5, "succeeded": 1}}, {"dead_letters"}),
    "dead, and others wait": (
        {"dead": [died()], "newest_ended": {"dead": 5}, "ready": [waiting()]}, {"dead_letters"},
    ),
    "the dead were seen to": ({"newest_ended": {"dead": 5}}, set()),
    "ever more die": (
        {"dead": [died(10, 4)], "newest_ended": {"dead": 14, "succeeded": 1}},
        {"dead_letters", "dead_growth"},
    ),
    "as many die as before": (
        {"dead": [died(10, 5)], "newest_ended": {"dead": 15, "succeeded": 1}}, {"dead_letters"},
    ),
    "handlers raise": ({"failures": [FailureSeen("t", "ValueError", 3)]}, {"jobs_failing"}),
    "a breaker is open": (
        {"breakers": [Breaker(name="crm", state="open", until=NOW + MINUTE)]}, {"breaker_open"},
    ),
    "too many come late": ({"burns": [Burn("timely", SLO, 20, 3)]}, {"slo_burn"}),
    "as many come late as may": ({"burns": [Burn("timely", SLO, 20, 2)]}, set()),
    "too few to tell": ({"burns": [Burn("timely", SLO, 9, 9)]}, set()),
    "a sink takes nothing": ({"sinks": [SinkSeen("webhook", 2, 3, "503")]}, {"sink_failing"}),
    "this clock is ahead": ({"here": NOW + 61 * SECOND}, {"clock_skew"}),
    "this clock is behind": ({"here": NOW - 61 * SECOND}, {"clock_skew"}),
    "this clock is off by a minute": ({"here": NOW + MINUTE}, set()),
    "nobody listens": ({"listeners": 0}, {"no_wakeups"}),
    "somebody listens": ({"listeners": 1}, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_these_facts_are_this_finding(name):
    known, expected = CASES[name]
    assert codes(diagnose(facts(**known))) == expected


def test_what_keeps_jobs_from_running_comes_first():
    found = diagnose(facts(holds=[hold("org", "acme"), hold("gate")]))
    assert [finding.severity for finding in found] == ["problem", "warning", "ok", "ok"]


@pytest.mark.parametrize(
    ("scope", "name", "known"),
    [("queue", "q:a", {"ready": [waiting()]}), ("job_type", "t", {"types": [kind()]})],
)
def test_a_pause_is_a_problem_when_jobs_wait_for_its_end(scope, name, known):
    code = f"{scope}_paused"
    assert of(diagnose(facts(holds=[hold(scope, name)])), code).severity == "warning"
    assert of(diagnose(facts(holds=[hold(scope, name)], **known)), code).severity == "problem"


def test_a_silent_cron_is_a_problem_when_something_is_due():
    for known, severity in (
        ({}, "warning"),
        ({"ready": [waiting()]}, "problem"),
        ({"overdue": 1}, "problem"),
    ):
        assert of(diagnose(facts(workers=[a_tick(HOUR)], **known)), "tick_silent").severity == severity


def test_one_tick_is_no_cron_while_jobs_wait():
    found = of(diagnose(facts(workers=[a_tick(MINUTE)], ready=[waiting()])), "no_worker")
    assert (found.severity, found.remedy) == ("warning", "onward worker APP")
    assert "only one tick has come, 60 s ago" in found.title
    twice = diagnose(facts(workers=[a_tick(MINUTE), a_tick(2 * MINUTE)], ready=[waiting()]))
    assert of(twice, "workers").severity == "ok"
    at_work = diagnose(facts(workers=[a_worker("t", kind="tick")], ready=[waiting()]))
    assert of(at_work, "workers").severity == "ok", "else the first tick of all would alert about itself"


def test_a_breaker_that_somebody_opened_is_a_problem():
    for forced, severity in ((False, "warning"), (True, "problem")):
        breaker = Breaker(name="crm", state="open", forced=forced)
        assert of(diagnose(facts(breakers=[breaker])), "breaker_open").severity == severity


@pytest.mark.parametrize(
    ("known", "code", "remedy"),
    [
        ({"holds": [hold("gate")]}, "gate_closed", "onward gate open"),
        ({"holds": [hold("queue", "q:mail")]}, "queue_paused", "onward queues resume q:mail"),
        ({"holds": [hold("queue", "q; rm")]}, "queue_paused", "onward queues resume 'q; rm'"),
        ({"holds": [hold("org", "acme")]}, "org_paused", "onward queues resume --org acme"),
        ({"holds": [hold("job_type", "t")]}, "job_type_paused", "onward queues resume --job-type t"),
        ({"skips": [SKIP]}, "job_type_skipped", "onward job-types unskip t"),
        ({"workers": []}, "no_worker", "onward worker APP"),
        ({"workers": [a_tick(HOUR)]}, "tick_silent", "onward tick APP"),
        (
            {"ready": [waiting("q:b")], "workers": [a_worker(queues={"q:a": None})]},
            "unserved_queue",
            "onward worker APP -q q:b",
        ),
        ({"dead": [died()], "newest_ended": {"dead": 1}}, "all_dead", "onward dead list"),
        (
            {"breakers": [Breaker(name="a b", state="open")]},
            "breaker_open",
            "onward breakers close --reason … 'a b'",
        ),
    ],
)
def test_a_finding_names_the_command_that_mends_it(known, code, remedy):
    found = of(diagnose(facts(**known)), code)
    assert found.remedy == remedy
    assert shlex.split(remedy)[0] == "onward"


def test_evidence_is_plain_and_tells_who_when_and_why():
    found = of(diagnose(facts(holds=[hold("gate")])), "gate_closed")
    assert found.evidence == {"since": "2026-03-01T11:00:00.000000Z", "reason": "why", "actor": "user:ada"}
    assert "by user:ada: why" in found.title


def test_the_last_tick_and_the_last_worker_are_told_of():  # S0-82
    found = of(diagnose(facts(workers=[a_worker(seen=2 * HOUR), a_tick(HOUR)])), "tick_silent")
    assert found.evidence["last_tick"] == "2026-03-01T11:00:00.000000Z"
    assert found.evidence["last_worker"] == "2026-03-01T10:00:00.000000Z"
    assert found.evidence["expected_within_seconds"] == 300
    well = of(diagnose(facts(workers=[a_tick(MINUTE)])), "workers")
    assert well.title == "no worker runs, only ticks come; last tick 60 s ago"
    both = of(diagnose(facts(workers=[a_worker(), a_tick(MINUTE)])), "workers")
    assert both.title == "1 worker, 2 slots; last tick 60 s ago"


def test_a_finding_is_a_value_that_can_be_compared_and_sent():
    assert diagnose(facts()) == diagnose(facts())
    assert all(isinstance(finding, Finding) for finding in diagnose(facts()))


def test_a_worker_that_has_just_ended_did_report():
    ended = NOW - 5 * SECOND
    gone = a_worker(seen=6 * SECOND, lease_until=ended, lost_at=ended)
    found = of(diagnose(facts(workers=[gone])), "no_worker")
    assert found.title == "no worker lives; the last one ended 5 s ago"


def test_of_a_queue_whose_worker_starts_anew_nobody_is_told():
    served = [a_worker(queues={"q:a": None})]
    for since, severity, told in ((20, "warning", False), (40, "problem", True)):
        known = facts(ready=[waiting("q:b", since=since * SECOND)], workers=served)
        found = of(diagnose(known), "unserved_queue")
        assert (found.severity, raises_alert(found)) == (severity, told)
    assert raises_alert(of(diagnose(facts(breakers=[Breaker(name="b", state="open")])), "breaker_open"))
    assert not raises_alert(of(diagnose(facts()), "workers"))
