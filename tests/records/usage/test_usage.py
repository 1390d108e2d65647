"""Usage is written with the end of its run, under the lease of that run, and reports add it up."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from onward import (
    Cancelled,
    Client,
    Failed,
    InvalidSetting,
    NotAllowed,
    Outcome,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
)
from onward.core.records.usage import Group, Usage
from onward.results import Lost
from tests.jobs.inspect.reading import rows
from tests.records.usage.usage_metering import claimed, end, spend, write

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
GROUPS: tuple[Group, ...] = ("org", "job_type", "queue", "day", "unit")


@pytest.fixture(autouse=True)
def worker(client: Client) -> None:
    client.at(NOON - timedelta(days=900)).worker.register("w", lease=timedelta(days=3650))


def test_the_usage_of_a_run_is_one_event_for_each_unit(client):  # R24, S2-33
    job = claimed(client, "acme", project_id="p", queue="q:exports", category="import_export", job_type="x")
    write(client, job, Usage("tokens", 12.5, 700), Usage("mail"), now=NOON).require()
    mail, tokens = client.usage.events(job.id)
    assert (tokens.unit, tokens.amount, tokens.cost_micros) == ("tokens", 12.5, 700)
    assert (mail.unit, mail.amount, mail.cost_micros) == ("mail", 1.0, 0)
    for event in (mail, tokens):
        assert (event.job_id, event.lease, event.attempt, event.at) == (job.id, job.lease, 1, NOON)
        assert (event.org_id, event.project_id, event.job_type) == ("acme", "p", "x")
        assert (event.queue, event.category) == ("q:exports", "import_export")


def test_the_cost_of_all_runs_is_summed_on_the_job_and_kept_for_each(client):  # R24, S1-11
    job = claimed(client, "acme")
    write(client, job, Usage("a", 1.0, 5), Usage("b", 1.0, 2), outcome=Snooze(0))
    assert client.jobs.get(job.id).cost_micros == 7
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Released())])
    [job] = client.worker.claim("q:default", worker_id="w")
    write(client, job, Usage("a", 1.0, 30), outcome=Succeeded())
    assert client.jobs.get(job.id).cost_micros == 37
    assert [run.cost_micros for run in client.jobs.attempts(job.id)] == [7, None, 30]


OUTCOMES: list[Outcome] = [
    Succeeded({"a": 1}),
    Skip("no need"),
    Snooze(60),
    Failed("boom"),
    Failed("boom", retryable=False),
    RateLimited(60),
    Cancelled("asked to"),
    Released(60),
]


def test_usage_is_kept_whatever_the_run_came_to(client):  # R24
    for outcome in OUTCOMES:
        job = claimed(client)
        write(client, job, Usage("unit", 2.0, 9), outcome=outcome).require()
        assert [(event.amount, event.cost_micros) for event in client.usage.events(job.id)] == [(2.0, 9)]
        assert client.jobs.get(job.id).cost_micros == 9


def test_what_is_cancelled_while_it_fails_keeps_its_usage(client):
    job = claimed(client)
    client.jobs.cancel(job.id, reason="no longer needed")
    write(client, job, Usage("unit", 1.0, 9), outcome=Failed("boom")).require()
    assert client.jobs.get(job.id).state == "cancelled"
    assert client.jobs.get(job.id).cost_micros == 9
    assert len(client.usage.events(job.id)) == 1


def test_a_stale_lease_can_write_no_usage(client):  # R7
    client.usage.set_budget("acme", limit_micros=1000, period="total")
    stale = claimed(client, "acme")
    client.worker.finish([stale.end_with(Lost())])
    other = claimed(client, "acme", queue="q:other")
    before = client.jobs.get(stale.id)
    answer = client.worker.write(
        [
            end(client, stale, Succeeded(), Usage("unit", 1.0, 9)),
            end(client, other, Succeeded(), Usage("unit", 1.0, 4)),
        ]
    )
    assert (answer.lost, answer.held) == ({stale.id}, {other.id})
    assert client.jobs.get(stale.id) == before
    assert list(client.usage.events(stale.id)) == []
    assert client.jobs.events(stale.id)[-1].event == "job.stale_result_rejected"
    assert client.jobs.get(other.id).cost_micros == 4
    assert client.usage.budgets()[0].spent_micros == 4


def test_an_end_that_is_written_twice_is_counted_once(client):  # R7
    client.usage.set_budget("acme", limit_micros=1000, period="total")
    for outcome in (Snooze(0), Succeeded()):
        job = claimed(client, "acme")
        assert write(client, job, Usage("unit", 1.0, 9), outcome=outcome).held
        assert write(client, job, Usage("unit", 1.0, 9), outcome=outcome).lost
        assert client.jobs.get(job.id).cost_micros == 9
        assert len(client.usage.events(job.id)) == 1
    assert client.usage.budgets()[0].spent_micros == 18


def test_usage_and_end_are_written_together_or_not_at_all(client):  # R7
    job = claimed(client, "acme")
    # The end can't be written: the record of that run is there already.
    rows(
        client,
        "INSERT INTO {prefix}attempts (job_id, lease, attempt, ended_at, outcome) "
        f"SELECT id, lease, attempt, started_at, 'x' FROM {{prefix}}live WHERE id = '{job.id}'",
    )
    with pytest.raises(Exception, match=r"(?i)unique"):
        write(client, job, Usage("unit", 1.0, 9), outcome=Snooze(60))
    assert client.jobs.get(job.id).cost_micros == 0
    assert list(client.usage.events(job.id)) == []


def test_a_cost_beyond_all_measure_keeps_no_job_from_ending(client):
    job = claimed(client, "acme")
    client.usage.set_budget("acme", limit_micros=1000, period="total")
    most = 9 * 10**18
    rows(client, f"UPDATE {{prefix}}live SET cost_micros = {most}")
    rows(client, f"UPDATE {{prefix}}budgets SET spent_micros = {most}")
    write(client, job, Usage("unit", 1e15, 10**15)).require()
    assert client.jobs.get(job.id).cost_micros == most
    assert client.usage.budgets()[0].spent_micros == most


def test_many_ends_with_many_units_are_written_at_once(client):
    made = [claimed(client, f"org {number % 3}") for number in range(30)]
    used = [Usage(f"unit {number}", 0.5, number) for number in range(20)]
    client.worker.write([end(client, job, Succeeded(), *used) for job in made]).require()
    assert {client.jobs.get(job.id).cost_micros for job in made} == {190}
    [total] = client.usage.report(())
    assert (total.runs, total.cost_micros) == (30, 30 * 190)


def reported(
    client: Client, by: tuple[Group, ...], *, org_id: str | None = None, **options
) -> dict[tuple, tuple]:
    client = client if org_id is None else client.for_org(org_id)
    names = {"org": "org_id"}
    return {
        tuple(getattr(total, names.get(group, group)) for group in by): (
            total.runs, total.amount, total.cost_micros,
        )
        for total in client.usage.report(by, **options)
    }  # fmt: skip


def test_a_report_equals_a_model_by_every_choice_of_groups(client):  # R24
    dice = random.Random(4)
    runs = []
    for _ in range(60):
        org = dice.choice([None, "a", "b"])
        at = NOON + timedelta(hours=dice.randrange(-40, 40))
        job = claimed(client, org, job_type=dice.choice("xy"), queue=dice.choice(["q:one", "q:two"]))
        units = dice.sample(["tokens", "mail", "gpu"], dice.randint(1, 3))
        used = [Usage(unit, dice.randrange(100) / 4, dice.randrange(1000)) for unit in units]
        outcome: Outcome = Succeeded() if dice.random() < 0.5 else Snooze(3600)
        write(client, job, *used, outcome=outcome, now=at)
        runs.append((job, at, used))
    since, until = NOON - timedelta(hours=20), NOON + timedelta(hours=20)
    windows: list[dict[str, Any]] = [
        {},
        {"since": since},
        {"until": until},
        {"since": since, "until": until, "org_id": "a"},
    ]
    for by in [by for size in range(6) for by in combinations(GROUPS, size)]:
        for window in windows:
            assert reported(client, by, **window) == modelled(runs, by, **window)


def modelled(runs, by, since=None, until=None, org_id=None) -> dict[tuple, tuple]:
    sums: dict[tuple, list] = defaultdict(lambda: [set(), 0.0, 0])
    for job, at, used in runs:
        if (since and at < since) or (until and at >= until) or (org_id and job.org_id != org_id):
            continue
        for one in used:
            values = {"org": job.org_id, "job_type": job.job_type, "queue": job.queue, "day": at.date()}
            line = sums[tuple({**values, "unit": one.unit}[group] for group in by)]
            line[0].add((job.id, job.lease))
            line[1] += one.amount
            line[2] += one.cost_micros
    return {
        group: (len(found), amount if "unit" in by else None, cost)
        for group, (found, amount, cost) in sums.items()
    }


def test_a_report_begins_with_what_cost_most_and_is_bounded(client):
    for org, cost in (("a", 5), ("b", 50), ("c", 500)):
        spend(client, org, cost)
    page = client.usage.report(("org",), limit=2)
    assert [total.org_id for total in page] == ["c", "b"]
    last = client.usage.report(("org",), limit=2, cursor=page.next_cursor)
    assert ([total.org_id for total in last], last.next_cursor) == (["a"], None)


def test_a_report_groups_by_names_that_it_knows(client):  # A11
    wrong: list[Any] = [("org_id",), ("org; DROP TABLE x",), "org", None, (1,)]
    for by in wrong:
        with pytest.raises(InvalidSetting, match="by"):
            client.usage.report(by)


def test_old_usage_is_pruned_and_what_it_cost_stays_on_the_job(client):
    jobs = [spend(client, "a", 5, now=NOON + timedelta(days=day)) for day in range(5)]
    part = client.usage.prune(before=NOON + timedelta(days=3), limit=2)
    assert (part.found, part.done) == (2, 2)
    rest = client.usage.prune(before=NOON + timedelta(days=3), limit=2, cursor=part.next_cursor)
    assert (rest.done, rest.next_cursor) == (1, None)
    assert [len(client.usage.events(job.id)) for job in jobs] == [0, 0, 0, 1, 1]
    assert {client.jobs.get(job.id).cost_micros for job in jobs} == {5}


def test_finishers_of_the_same_orgs_never_wait_for_each_other_in_a_ring(client):
    orgs = [f"org {number}" for number in range(6)]
    for org in orgs:
        client.usage.set_budget(org, limit_micros=10**9, period="day")
    jobs = [claimed(client, org) for _ in range(20) for org in orgs]
    dice = random.Random(7)
    dice.shuffle(jobs)
    batches = [jobs[at : at + 6] for at in range(0, len(jobs), 6)]
    with ThreadPoolExecutor(6) as threads:
        answers = threads.map(
            lambda batch: client.worker.write(
                [end(client, job, Succeeded(), Usage("u", 1.0, 3)) for job in batch]
            ),
            batches,
        )
        for answer in answers:
            answer.require()
    assert {budget.spent_micros for budget in client.usage.budgets()} == {60}


def test_a_confined_client_sees_the_usage_of_its_org_and_sets_no_budget(client):  # R14
    for org in ("ours", "theirs"):
        client.usage.set_budget(org, limit_micros=5, period="total")
    ours, theirs = spend(client, "ours", 5), spend(client, "theirs", 7)
    own = client.for_org("ours")
    assert [total.cost_micros for total in own.usage.report(("org",))] == [5]
    assert (len(own.usage.events(ours.id)), len(own.usage.events(theirs.id))) == (1, 0)
    assert [budget.org_id for budget in own.usage.budgets()] == ["ours"]
    assert list(own.usage.budgets("theirs")) == []
    assert own.gate.status().paused("budget") == {"ours"}
    for refused in (
        lambda: own.usage.set_budget("ours", limit_micros=1000, period="total"),
        lambda: own.usage.remove_budget("ours"),
        lambda: own.usage.prune(before=NOON),
    ):
        with pytest.raises(NotAllowed):
            refused()


def test_a_sum_that_no_column_can_hold_is_told_as_the_most(client):
    most = 9_000_000_000_000_000_000
    for _ in range(2):
        job = claimed(client, "acme", now=NOON)
        write(client, job, Usage("unit", 1.0, 1), Usage("other", 1.0, 2), now=NOON).require()
    assert [line.cost_micros for line in client.usage.report(by=["org"])] == [6]
    # As years of costly runs would have it.
    rows(client, f"UPDATE {{prefix}}usage SET cost_micros = {most - 1}")
    assert [line.cost_micros for line in client.usage.report(by=["org"])] == [most]
    assert {line.cost_micros for line in client.usage.report(by=["unit"])} == {most}
    assert (
        client.at(NOON).usage.set_budget("acme", limit_micros=5, period="month", reason="r").spent_micros
        == most
    )
