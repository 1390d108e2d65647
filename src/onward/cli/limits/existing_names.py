"""Check that a queue, an org or a job type that an operator names exists: a typo would pause nothing."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from onward.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.app import Onward
    from onward.clients.sync.client import Client
    from onward.core.limits.pause import Scope

_MOST_JOBS = 1000
_MISSING = {
    "queue": "no job type, job or worker has the queue",
    "org": "no job has the org",
    "job_type": "no job or worker has the job type",
}


def check_exists(client: Client, app: Onward | None, scope: Scope, name: str) -> None:
    """Raise InvalidSetting, with the nearest name, if nothing has this queue, org or job type."""
    known = _declared(client, app, scope)
    if name in known or _has_jobs(client, scope, name):
        return
    near = nearest(name, {*known, *_of_jobs(client, scope)})
    raise InvalidSetting(f"{_MISSING[scope]} {name!r:.80}{near} (--force does it anyway)")


def queues_of(app: Onward) -> set[str]:
    """Return the queues to which the job types of an app go, and those that every installation has."""
    from onward.core.policy.category import QUEUES

    jobs = [handler.template for handler in app.handlers.values()]
    return {*QUEUES, *(job.queue or app.policies.queue_of(job.job_type, job.category) for job in jobs)}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a text that names the most similar name, or an empty one if none is similar."""
    near = get_close_matches(name, sorted(known), 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def _declared(client: Client, app: Onward | None, scope: Scope) -> set[str]:
    """Return the names that the app, the workers and the policies have, and those that are paused."""
    from onward.core.policy.category import QUEUES

    paused = {pause.name for pause in client.gate.status().pauses if pause.scope == scope}
    match scope:
        case "queue":
            served = {queue for worker in client.workers.list() for queue in worker.queues or ()}
            policies = {queue.name for queue in client.queues.list()}
            return paused | served | policies | (set(QUEUES) if app is None else queues_of(app))
        case "job_type":
            types = {job_type for worker in client.workers.list() for job_type in worker.job_types or ()}
            return paused | types | (set() if app is None else set(app.handlers))
    return paused


def _has_jobs(client: Client, scope: Scope, name: str) -> bool:
    from onward.core.jobs.filters import JobFilter

    match scope:
        case "queue":
            return name in client.jobs.count().live
        case "job_type":
            return bool(client.jobs.list(JobFilter(job_type=name), limit=1))
    return bool(client.jobs.list(JobFilter(org_id=name), limit=1))


def _of_jobs(client: Client, scope: Scope) -> set[str]:
    """Return the names that the newest jobs have."""
    if scope == "queue":
        return set(client.jobs.count().live)
    newest = client.jobs.list(limit=_MOST_JOBS)
    return {name for job in newest if (name := job.org_id if scope == "org" else job.job_type)}
