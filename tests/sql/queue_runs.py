"""The operations on queues and their policies, driven with canned rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from onward.core.limits.queue_policy import QueuePolicy
from onward.operations.limits import queues
from onward.operations.statement import Operation
from onward.operations.work import policy_claim

__all__ = ["QUEUE_RUNS", "QUEUE_SETS"]

QUEUE_SETS = {
    "declared": queues.DECLARED,
    "heads": policy_claim.HEADS,
}

ID = "019b7c2e-9f00-7000-8000-000000000001"
QUEUE = ("q", '{"rate": "1/s"}', None, None, None, None, None, 5, 1_000_000)
HEAD = (ID, "a", 5, 1)
PAUSED = {"paused_orgs": ["o"], "paused_types": ["t"]}


def claim(**options: Any) -> Callable[[], Operation[Any]]:
    """Claim by a rule."""
    return partial(policy_claim.claim_by_policy, "q", 2, worker_id="w", **options)


QUEUE_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "declare queues": (
        partial(queues.declare, {"q": QueuePolicy.of(concurrency=2), "r": QueuePolicy.of(fair=True)}),
        [[]],
    ),
    "list queues": (queues.list_queues, [[QUEUE]]),
    "get a queue": (partial(queues.get_queue, "q"), [[]]),
    "limit a queue": (partial(queues.limit_queue, "q", concurrency=2, reason="r"), [[], [], [], [QUEUE]]),
    "claim fairly, with room": (
        claim(**PAUSED),
        [
            [('{"fair": true, "concurrency": 5}', None, None, None, 1)],
            [(3,)],
            [("a",), ("o",)],
            [HEAD],
            [],
            [],
        ],
    ),
    "claim fairly, by age": (
        claim(),
        [[('{"fair": true, "ageing": 5}', None, None, None, 1)], [("a",)], [HEAD], [], []],
    ),
    "claim by age": (claim(), [[('{"ageing": 5}', None, None, None, 1)], [HEAD], []]),
    "claim at a rate": (
        claim(declared=QueuePolicy.of(rate="1/s")),
        [[], [], [('{"rate": "1/s"}', None, None, None, 1)], []],
    ),
    "claim without a rule": (claim(), [[], []]),
}
