"""Describes a worker: for the database when it registers, and for an operator who asks."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from onward.core.jobs.job_types import described
from onward.core.policy.application import DeclaredTypes
from onward.core.policy.built_in import BUILT_IN
from onward.handlers.handler import Handler
from onward.worker.attempts.attempt import Running

Kind = Literal["worker", "tick"]
"""A worker that keeps running, or a tick: one that a cron starts for a few seconds."""


def about(
    handlers: Mapping[str, Handler],
    queues: Mapping[str, int | None] | None,
    concurrency: int,
    kind: Kind,
    declared: DeclaredTypes,
) -> dict[str, Any]:
    """Return where a worker runs and what it serves."""
    return {
        **msgspec.structs.asdict(declared),
        "kind": kind,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "concurrency": concurrency,
        "queues": None if queues is None else dict(queues),
        "job_types": sorted(handlers),
        "described": described({name: handler.declared for name, handler in handlers.items()}),
        "providers": {
            name: handler.provider for name, handler in handlers.items() if isinstance(handler.provider, str)
        },
        "schedules": sorted(
            name for name, handler in handlers.items() if handler.schedule is not None or name in BUILT_IN
        ),
    }


def declared_types(handlers: Mapping[str, Handler], application: str) -> DeclaredTypes:
    """Return what an application declares; the built-in job types are not its own.

    A handler that is not imported yet has no fingerprint, so it differs from no other.
    """
    signatures = {
        name: handler.fingerprint
        for name, handler in handlers.items()
        if name not in BUILT_IN and handler.fingerprint is not None
    }
    return DeclaredTypes(application, signatures)


def describe(worker_id: str, runs: Collection[Running], waiting: int) -> str:
    """Return a text of the running jobs, and where in its code each handler is."""
    lines = [f"worker {worker_id}: {len(runs)} running, {waiting} waiting"]
    for run in list(runs):
        lines.append(f"job {run.job.job_type} {run.job.id} attempt {run.job.attempt}")
        lines += run.stack()
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the only way to another thread
        lines += [f"thread {ident}", *(line.rstrip() for line in traceback.format_stack(frame))]
    return "\n".join(lines)
