"""A budget holds the jobs of its org, and of no other, from the moment it is spent until its period ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Client, InvalidJob, InvalidSetting, Succeeded
from onward.core.records.usage import Period, Usage
from onward.operations.records import usage
from tests.jobs.inspect.reading import rows
from tests.records.usage.usage_metering import claimed, end, spend
from tests.stores.postgres.postgres_schema import clean_schema
from tests.worker.faults.place import until

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def client(client: Client) -> Client:
    client.at(NOON - timedelta(days=900)).worker.register("w", lease=timedelta(days=3650))
    return client


def held(client: Client, now: datetime | None = NOON) -> frozenset[str]:
    """The orgs that are held, as workers and as operators are told."""
    watch = client.at(now).worker.instructions("w")
    assert watch.pauses == client.at(now).gate.status().pauses
    assert watch.held_orgs == watch.paused("budget") | watch.paused("org")
    return watch.paused("budget")


def test_a_spent_budget_holds_its_org_and_no_other(client):  # R24
    for org in ("acme", "other"):
        client.at(NOON).usage.set_budget(org, limit_micros=100, period="day")
    spend(client, "acme", 99, now=NOON)
    spend(client, "no budget", 5000, now=NOON)
    spend(client, None, 5000, now=NOON)
    assert held(client) == frozenset()
    spend(client, "acme", 1, now=NOON + HOUR)
    assert held(client, NOON + HOUR) == {"acme"}
    [pause] = client.at(NOON + HOUR).gate.status().pauses
    assert (pause.scope, pause.name, pause.paused_at) == ("budget", "acme", NOON + HOUR)
    assert pause.reason == "its budget of 100 micros a day is spent"
    other, acme = client.at(NOON + HOUR).usage.budgets()[::-1]
    assert (acme.spent_micros, acme.spent, acme.spent_at) == (100, True, NOON + HOUR)
    assert (other.spent_micros, other.spent) == (0, False)


LAST = timedelta(microseconds=1)
ENDS: list[tuple[Period, datetime]] = [
    ("day", datetime(2026, 7, 10, tzinfo=UTC)),
    ("day", datetime(2026, 8, 1, tzinfo=UTC)),
    ("month", datetime(2026, 8, 1, tzinfo=UTC)),
    ("month", datetime(2027, 1, 1, tzinfo=UTC)),
    ("month", datetime(2028, 3, 1, tzinfo=UTC)),
]


def test_an_org_is_released_when_the_period_of_utc_ends(client):
    for period, first in ENDS:
        org = f"{period} until {first:%F}"
        before = first - HOUR
        client.at(before).usage.set_budget(org, limit_micros=100, period=period)
        spend(client, org, 150, now=before)
        assert held(client, first - LAST) == {org}
        assert held(client, first) == frozenset()
        [budget] = client.at(first).usage.budgets(org)
        assert (budget.spent_micros, budget.spent, budget.period_started_at) == (0, False, first)
        spend(client, org, 40, now=first)
        assert client.at(first).usage.budgets(org)[0].spent_micros == 40
        spend(client, org, 60, now=first + HOUR)
        assert held(client, first + HOUR) == {org}
        assert client.at(first + HOUR).usage.budgets(org)[0].spent_at == first + HOUR
        client.usage.remove_budget(org)


def test_a_total_never_begins_again(client):
    client.at(NOON).usage.set_budget("acme", limit_micros=100, period="total")
    spend(client, "acme", 60, now=NOON)
    spend(client, "acme", 40, now=NOON + timedelta(days=400))
    assert held(client, NOON + timedelta(days=900)) == {"acme"}


def test_an_org_is_released_when_its_budget_is_raised_or_removed(client):
    client.at(NOON).usage.set_budget("acme", limit_micros=100, period="day")
    spend(client, "acme", 150, now=NOON)
    raised = client.at(NOON).usage.set_budget("acme", limit_micros=200, period="day")
    assert (raised.spent_micros, raised.spent) == (150, False)
    assert held(client) == frozenset()
    lowered = client.at(NOON + HOUR).usage.set_budget("acme", limit_micros=150, period="day")
    assert (lowered.spent_micros, lowered.spent_at) == (150, NOON + HOUR)
    assert held(client) == {"acme"}
    assert client.at(NOON).usage.remove_budget("acme")
    assert not client.at(NOON).usage.remove_budget("acme")
    assert held(client) == frozenset()
    assert list(client.at(NOON).usage.budgets()) == []


def test_a_new_budget_counts_what_its_period_has_cost_already(client):
    spend(client, "acme", 1000, now=NOON - timedelta(days=40))
    spend(client, "acme", 100, now=NOON - timedelta(days=3))
    spend(client, "acme", 10, now=NOON)
    spend(client, "other", 7, now=NOON)
    spent = {}
    periods: tuple[Period, ...] = ("day", "month", "total")
    for period in periods:
        spent[period] = client.at(NOON + HOUR).usage.set_budget("acme", limit_micros=110, period=period)
    assert {period: budget.spent_micros for period, budget in spent.items()} == {
        "day": 10,
        "month": 110,
        "total": 0,
    }
    assert spent["month"].spent
    assert not spent["day"].spent


def test_a_budget_that_is_set_after_its_period_ended_begins_with_the_new_one(client):
    client.at(NOON).usage.set_budget("acme", limit_micros=100, period="day")
    spend(client, "acme", 150, now=NOON)
    again = client.at(NOON + 24 * HOUR).usage.set_budget("acme", limit_micros=100, period="day")
    assert (again.spent_micros, again.spent) == (0, False)


def test_crossing_setting_and_removing_are_audited_with_their_actor(client):
    operator = client.at(NOON).acting_as("user:7")
    operator.usage.set_budget("acme", limit_micros=100, period="day", reason="trial")
    spend(client, "acme", 60, now=NOON)
    for _ in range(3):
        spend(client, "acme", 60, now=NOON)
    operator.usage.remove_budget("acme", reason="paid")
    found = rows(
        client,
        "SELECT event, org_id, actor_type, actor_id, CAST(detail AS text) FROM {prefix}audit "
        "WHERE event LIKE 'budget.%' ORDER BY seq",
    )
    assert [row[:4] for row in found] == [
        ("budget.set", "acme", "user", "7"),
        ("budget.spent", "acme", None, None),
        ("budget.removed", "acme", "user", "7"),
    ]
    said = [row[4].replace(" ", "") for row in found]
    assert '"limit_micros":100' in said[0]
    assert '"trial"' in said[0]
    assert '"spent_micros":120' in said[1]
    assert '"paid"' in said[2]
    # A new period crosses anew.
    client.at(NOON).usage.set_budget("acme", limit_micros=100, period="day")
    spend(client, "acme", 200, now=NOON + 24 * HOUR)
    [[crossed]] = rows(client, "SELECT count(*) FROM {prefix}audit WHERE event = 'budget.spent'")
    assert crossed == 2


def test_many_orgs_are_charged_by_one_write(client):
    orgs = [f"org {number:03}" for number in range(60)]
    for org in orgs:
        client.usage.set_budget(org, limit_micros=30, period="month")
    jobs = [claimed(client, org) for org in orgs for _ in range(2)]
    client.worker.write(
        [
            end(client, job, Succeeded(), Usage("a", 1.0, number % 2), Usage("b", 1.0, number // 2))
            for number, job in enumerate(jobs)
        ]
    )
    budgets = client.usage.budgets(limit=60)
    assert {budget.org_id: budget.spent_micros for budget in budgets} == {
        org: 2 * number + 1 for number, org in enumerate(orgs)
    }
    assert held(client, None) == {budget.org_id for budget in budgets if budget.spent_micros >= 30}
    page = client.usage.budgets(limit=2)
    assert [budget.org_id for budget in page] == orgs[:2]
    rest = client.usage.budgets(limit=58, cursor=page.next_cursor)
    assert ([budget.org_id for budget in rest], rest.next_cursor) == (orgs[2:], None)
    assert [budget.org_id for budget in client.usage.budgets(orgs[9])] == [orgs[9]]


def test_usage_that_costs_nothing_touches_no_budget(client):
    client.usage.set_budget("acme", limit_micros=1, period="total")
    spend(client, "acme", 0)
    assert client.usage.budgets()[0].spent_micros == 0
    assert held(client, None) == frozenset()


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"limit_micros": 0}, InvalidSetting),
    ({"limit_micros": 1.5}, InvalidSetting),
    ({"period": "week"}, InvalidSetting),
    ({"org_id": ""}, InvalidJob),
    ({"reason": ""}, InvalidJob),
]


def test_a_budget_that_makes_no_sense_is_refused(client):
    for wrong, error in WRONG:
        asked: dict[str, Any] = {"org_id": "acme", "limit_micros": 1, "period": "day", **wrong}
        with pytest.raises(error, match=next(iter(wrong))):
            client.usage.set_budget(asked.pop("org_id"), **asked)
    with pytest.raises(InvalidJob, match="actor_id"):
        client.acting_as("user:" + "x" * 256).usage.set_budget("acme", limit_micros=1, period="day")
    assert list(client.usage.budgets()) == []


def test_budgets_are_locked_in_the_order_of_their_orgs(postgres_url):
    # Else two finishers would wait for each other, each with what the other wants.
    with (
        clean_schema(postgres_url) as store,
        psycopg.connect(postgres_url) as first,
        ThreadPoolExecutor(1) as thread,
    ):
        client = Client(store=store)
        for org in ("b", "a"):
            client.usage.set_budget(org, limit_micros=100, period="total")
        lock = f"SELECT FROM {store.prefix}budgets WHERE org_id = '{{}}' FOR UPDATE NOWAIT"
        first.execute(lock.format("a").encode())
        second = thread.submit(store.run, lambda: usage.spend({"b": 1, "a": 2}))
        with psycopg.connect(postgres_url, autocommit=True) as observer:
            until(lambda: observer.execute(BLOCKED, (first.info.backend_pid,)).fetchone() == (1,))
        first.execute(lock.format("b").encode())
        first.rollback()
        assert second.result() == frozenset()
        assert [budget.spent_micros for budget in client.usage.budgets()] == [2, 1]
