"""What runs have used is written with their ends, and budgets are charged for it."""

from __future__ import annotations

from datetime import date

from onward.core.jobs.ids import JobId
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End, Snooze, Succeeded
from onward.operations.jobs import inspect
from onward.operations.limits import pauses
from onward.operations.records import usage
from onward.operations.work import finish
from tests.connections.scenarios.steps import HOUR, NOW, Go, look, put, register, take

__all__ = ["SCENARIOS"]


def what_runs_use_is_counted_and_charged(go: Go) -> list[JobId]:
    register(go)
    budget = go(usage.set_budget("é", limit_micros=30, period="month", reason="r"))
    assert (budget.org_id, budget.spent_micros, budget.spent) == ("é", 0, False)
    first, second = put(go, org_id="é", queue="q:default"), put(go, org_id="é")
    jobs = take(go)
    used = (Usage("tokens", 2.5, 10), Usage("é"))
    policy = DEFAULT_POLICIES.policy_of(jobs[0])
    ends = [End.of(job, Succeeded(), policy, 0.5, used) for job in jobs]
    assert go(finish.finish([End.of(jobs[0], Snooze(0), policy, 0.5, used), ends[1]])).lost == set()
    assert go(finish.finish(ends[:1])).lost == {first.id}
    [again] = take(go)
    assert go(finish.finish([End.of(again, Succeeded(), policy, 0.5, used[:1])])).held == {first.id}
    assert (look(go, first.id).cost_micros, look(go, second.id).cost_micros) == (20, 10)
    assert [run.cost_micros for run in go(inspect.attempts_of(first.id))] == [10, 10]
    found = [(event.lease, event.unit, event.amount) for event in go(usage.events_of(first.id))]
    assert found == [(1, "tokens", 2.5), (1, "é", 1.0), (3, "tokens", 2.5)]
    [tokens, other] = go(usage.report(("org", "day", "unit"), since=NOW - HOUR, until=NOW + HOUR))
    assert (tokens.org_id, tokens.day, tokens.unit) == ("é", date.fromisoformat(f"{NOW:%Y-%m-%d}"), "tokens")
    assert (tokens.runs, tokens.amount, tokens.cost_micros) == (3, 7.5, 30)
    assert (other.runs, other.amount, other.cost_micros) == (2, 2.0, 0)
    assert go(pauses.controls()).held_orgs == {"é"}
    [spent] = go(usage.budgets())
    assert (spent.spent_micros, spent.spent_at) == (30, NOW)
    assert go(usage.prune(before=NOW + HOUR, limit=4)).done == 4
    assert go(usage.remove_budget("é"))
    return [first.id, second.id]


SCENARIOS = [what_runs_use_is_counted_and_charged]
