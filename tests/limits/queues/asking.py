"""What a claim by policy asks the database for, driven with canned rows."""

from __future__ import annotations

from typing import Any

from onward.operations.statement import Operation, Statement
from onward.operations.work.policy_claim import claim_by_policy

__all__ = ["Q", "asked_by", "only", "ruled_claim"]

Q = "q:shared"
IDS = ["019b7c2e-9f00-7000-8000-000000000001", "019b7c2e-9f00-7000-8000-000000000002"]


def asked_by(settings: str) -> dict[str, Statement]:
    """Give the statements of a claim of a hundred by a policy, by name."""
    heads = [(job_id, "a", 5, 1) for job_id in IDS]
    answers: dict[str, list[tuple[Any, ...]]] = {
        "lock_queue": [(settings, None, None, '["b",1]', 1)],
        "count_running": [(3,)],
        "find_orgs": [("a",), ("b",), (None,)],
        "find_fair_jobs": heads,
        "find_aged_fair_jobs": heads,
        "find_aged_jobs": heads,
        "claim_jobs": [],
        "claim_picked_jobs": [],
    }
    operation = claim_by_policy(Q, 100, worker_id="w")
    found: dict[str, Statement] = {}
    try:
        asked = next(operation)
        while True:
            assert isinstance(asked, Statement)
            found[asked.name] = asked
            asked = operation.send(answers.get(asked.name, []))
    except StopIteration:
        return found


def ruled_claim(name: str) -> Operation[None]:
    """Ask only for one statement of a fair claim."""
    yield asked_by('{"fair": true, "concurrency": 9}')[name]


def only(statement: Statement) -> Operation[None]:
    """Ask only for this."""
    yield statement
