"""Breakers in the database: counted by all workers together, one probe for all, audited, switched by hand."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from onward import AuditFilter, Client, InvalidJob, InvalidSetting
from onward.core.failures.breaker import Answer, BreakerSettings
from onward.core.jobs.actor import Actor
from onward.results import Breaker
from tests.failures.breakers.database import execute

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BACK = Answer(pushed_back=True, status=503, job_id="other")
GOOD = Answer(good=True)


def events(client: Client) -> list[tuple[str, str | None, object]]:
    found = client.audit.list(AuditFilter(), oldest_first=True)
    return [(record.event, record.actor_id, record.detail) for record in found]


def push_back(client: Client, count: int = 3, name: str = "crm", now: datetime = NOW) -> None:
    for number in range(count):
        client.at(now).worker.breakers.answered(name, None, replace(BACK, job_id=f"job{number}"))


def test_a_provider_that_never_pushed_back_has_no_row(client):
    assert client.breakers.get("crm") == Breaker(name="crm")
    assert client.worker.breakers.ask("crm", "a").entry == "go"
    assert client.worker.breakers.answered("crm", None, GOOD).entry == "go"
    assert client.worker.breakers.answered("crm", None, Answer()).entry == "go"
    assert client.breakers.list().items == []


def test_it_opens_lets_one_through_and_closes_and_the_audit_tells(client):
    push_back(client)
    held = client.at(NOW + SECOND).worker.breakers.ask("crm", "a")
    assert (held.entry, held.wait) == ("held", 19 * SECOND)
    late = NOW + 20 * SECOND
    assert client.at(late).breakers.get("crm").state == "half_open"
    assert [client.at(late).worker.breakers.ask("crm", who).entry for who in "abc"] == [
        "probe",
        "wait",
        "wait",
    ]
    assert client.at(late).worker.breakers.answered("crm", "a", GOOD).entry == "go"
    assert client.at(late).breakers.get("crm") == Breaker(name="crm")
    opened, closed = events(client)
    why = "3 jobs in a row were pushed back, the last with status 503"
    assert opened == (
        "breaker.opened",
        None,
        {"name": "crm", "reason": why, "until": "2026-01-02T00:00:20+00:00"},
    )
    assert closed == (
        "breaker.closed",
        None,
        {"name": "crm", "reason": "the provider has answered well", "opened_at": "2026-01-02T00:00:00+00:00"},
    )


def test_a_try_that_fails_is_held_longer_and_is_no_new_line_in_the_audit(client):
    push_back(client)
    late = NOW + 20 * SECOND
    client.at(late).worker.breakers.ask("crm", "a")
    again = client.at(late).worker.breakers.answered("crm", "a", BACK)
    assert (again.entry, again.wait) == ("held", 40 * SECOND)
    [seen] = client.at(late).breakers.list()
    assert (seen.state, seen.holds, seen.opened_at) == ("open", 1, NOW)
    assert seen.failed_jobs == ("job0", "job1", "job2", "other")
    assert [event for event, _, _ in events(client)] == ["breaker.opened"]


def test_an_operator_opens_and_closes_it_for_a_reason(client):
    forced = client.at(NOW).acting_as("user:7").breakers.open("crm", reason="their maintenance")
    assert (forced.state, forced.until, forced.forced, forced.actor_id) == ("open", None, True, "7")
    held = client.at(NOW + timedelta(days=30)).worker.breakers.ask("crm", "a")
    assert (held.entry, held.wait) == ("held", None)
    assert client.at(NOW).acting_as("user:8").breakers.close("crm", reason="over")
    assert client.at(NOW).breakers.get("crm") == Breaker(name="crm")
    assert not client.at(NOW).breakers.close("crm", reason="over")
    assert events(client) == [
        ("breaker.opened", "7", {"name": "crm", "reason": "their maintenance"}),
        (
            "breaker.closed",
            "8",
            {"name": "crm", "reason": "over", "opened_at": "2026-01-02T00:00:00+00:00"},
        ),
    ]


def test_an_operator_opens_it_for_a_time_after_which_one_is_let_through(client):
    one = client.at(NOW).breakers.open("crm", reason="r", for_="10m")
    two = client.at(NOW).breakers.open("crm", reason="r", until=NOW + timedelta(minutes=20))
    assert (one.until, two.until) == (NOW + timedelta(minutes=10), NOW + timedelta(minutes=20))
    assert client.at(two.until - SECOND).worker.breakers.ask("crm", "a").entry == "held"
    assert client.at(two.until).worker.breakers.ask("crm", "a").entry == "probe"
    assert client.at(two.until).worker.breakers.answered("crm", "a", BACK).entry == "held"
    assert not client.at(two.until).breakers.get("crm").forced, "from here on the provider holds it"


def test_an_operator_takes_over_what_the_provider_has_opened(client):
    push_back(client)
    forced = client.at(NOW + SECOND).breakers.open("crm", reason="I look into it")
    assert (forced.forced, forced.until, forced.opened_at) == (True, None, NOW)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"reason": ""}, InvalidJob),
        ({"reason": "r", "for_": 0}, InvalidSetting),
        ({"reason": "r", "for_": "soon"}, InvalidSetting),
        ({"reason": "r", "for_": 5, "until": NOW + SECOND}, InvalidSetting),
        ({"reason": "r", "until": NOW}, InvalidSetting),
        ({"reason": "r", "until": datetime(2026, 1, 3)}, InvalidSetting),  # noqa: DTZ001
    ],
)
def test_what_makes_no_sense_opens_nothing(client, options, error):
    with pytest.raises(error):
        client.at(NOW).breakers.open("crm", **options)
    assert client.breakers.list().items == []
    assert events(client) == []


@pytest.mark.parametrize(
    ("actor", "error"),
    [
        (("user", 7), InvalidSetting),
        (Actor("user", 7), InvalidJob),  # type: ignore[arg-type]
        ("user:" + "x" * 256, InvalidJob),
    ],
)
def test_who_is_no_actor_opens_nothing(client, actor, error):
    with pytest.raises(error):
        client.at(NOW).acting_as(actor).breakers.open("crm", reason="r")
    assert client.breakers.list().items == []
    assert events(client) == []


def test_secrets_in_a_reason_are_hidden(client):
    opened = client.breakers.open("crm", reason="token=sk_live_51H8x9y2eZvKYlo2CabcdefghijkLMNOP")
    assert "sk_live" not in repr((opened, client.breakers.list(), events(client)))


def test_breakers_are_listed_by_name_page_by_page(client):
    for name in ("b", "a", "queue:q:default", "B"):
        push_back(client, 1, name)
    assert [one.name for one in client.at(NOW).breakers.list()] == ["B", "a", "b", "queue:q:default"]
    page = client.at(NOW).breakers.list(limit=3)
    assert [one.name for one in page] == ["B", "a", "b"]
    rest = client.at(NOW).breakers.list(limit=3, cursor=page.next_cursor)
    assert ([one.name for one in rest], rest.next_cursor) == (["queue:q:default"], None)


def test_of_many_who_ask_at_once_one_gets_the_probe_and_no_answer_is_lost(client):
    settings = BreakerSettings.of(failures=100)
    start = threading.Barrier(8)

    def count(number: int) -> None:
        start.wait(10)
        answer = replace(BACK, job_id=str(number))
        client.at(NOW).worker.breakers.answered("crm", None, answer, settings)

    def ask(who: int) -> str:
        start.wait(10)
        return str(client.at(NOW).worker.breakers.ask("crm", str(who), settings).entry)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(8)))
        assert client.at(NOW).breakers.get("crm").failures == 8
        assert sorted(threads.map(ask, range(8))) == ["probe"] + ["wait"] * 7


def test_a_watch_tells_what_is_not_well_and_how_long_it_is_held(client):
    client.at(NOW).worker.register("w")
    push_back(client, 1, "counted")
    push_back(client, 3, "held")
    push_back(client, 3, "over", now=NOW - timedelta(minutes=5))
    client.at(NOW).breakers.open("forced", reason="r")
    push_back(client, 1, "fine")
    client.at(NOW).worker.breakers.answered("fine", None, GOOD)
    watch = client.at(NOW + SECOND).worker.instructions("w")
    nothing = timedelta()
    assert watch.breakers == {"counted": nothing, "held": 19 * SECOND, "over": nothing, "forced": None}
    assert (watch.alive, watch.pauses, watch.gate) == (True, frozenset(), None)


def test_what_is_open_is_not_missed_behind_what_is_closed(client):
    for name in ("a", "b", "c"):
        push_back(client, 1, name)
        client.at(NOW).worker.breakers.answered(name, None, GOOD)
    push_back(client, 3, "z")
    push_back(client, 1, "y")
    page = client.at(NOW).breakers.list(limit=1)
    assert [held.name for held in page] == ["z"]
    rest = client.at(NOW).breakers.list(cursor=page.next_cursor)
    assert [held.name for held in rest] == ["y", "a", "b", "c"]


def test_a_row_that_workers_could_not_read_can_not_be_written_by_hand(client):
    push_back(client)
    sqlite = client.store.database == "sqlite"
    wrong = ["until = 9000000000000000000", "until = 'soon'"] if sqlite else ["until = 'infinity'"]
    for change in (*wrong, "holds = -1", "failures = -1"):
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
            execute(client, f"UPDATE {client.store.prefix}breakers SET {change}")
    assert client.at(NOW).breakers.get("crm").state == "open"
