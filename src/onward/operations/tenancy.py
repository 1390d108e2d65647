"""What a client that is confined to one org or project may do: only what is listed here, and only there.

SQL narrows what is read and changed, by `:only_org` and `:only_project`. This module refuses statements that
concern all orgs, and those that would write a job into another org or project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import msgspec

from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.actor import Actor
from onward.core.jobs.filters import JobIndex, Order
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import NewJob
from onward.core.jobs.scope import Scope
from onward.core.policy.policies import Policies
from onward.errors import InvalidSetting, NotAllowed
from onward.operations.statement import Operation, Rows, Scalar, Statement, as_json

_LISTING = frozenset(
    f"{what}_{order}_of_{index}"
    for what in ("find_reach", "list_jobs")
    for order in get_args(Order)
    for index in get_args(JobIndex)
)

OF_ONE_ORG = _LISTING | frozenset({
    "add_artifact",
    "add_followers",
    "add_job_artifact",
    "advance_job",
    "begin_effect",
    "cancel_followers",
    "cancel_jobs",
    "change_held_jobs",
    "claim_unpaused_jobs",
    "close_batch",
    "count_ends",
    "count_jobs",
    "delete_artifact",
    "delete_jobs",
    "discard_dead_letters",
    "doom_jobs",
    "end_batches",
    "enqueue_jobs",
    "enqueue_keyed_jobs",
    "explain_refusals",
    "extend_worker",
    "find_batch_members",
    "find_claim_controls",
    "find_dependents",
    "find_ending_jobs",
    "find_idle_batches",
    "find_in_scope",
    "find_origin",
    "find_parents",
    "find_signal",
    "find_subject_jobs",
    "finish_alike",
    "finish_jobs",
    "fix_dead_letter",
    "follow_dead_jobs",
    "follow_jobs",
    "forget_followers",
    "forget_key",
    "free_keys",
    "get_artifact",
    "get_batches",
    "get_dead_letter",
    "get_jobs",
    "get_key",
    "hand_over_followers",
    "insert_batch",
    "installation",
    "join_batches",
    "last_audit",
    "keep_effect",
    "lift_control",
    "list_artifacts",
    "list_attempts",
    "list_audit",
    "list_awaited",
    "list_batch_jobs",
    "list_batches",
    "list_budgets",
    "list_children",
    "list_controls",
    "list_dead_groups",
    "list_dead_letters",
    "list_dead_of_group",
    "list_dead_of_subject",
    "list_effects",
    "list_failures",
    "list_keys",
    "list_followers",
    "list_links",
    "list_parents",
    "list_resolutions",
    "list_signals",
    "list_usage",
    "lock_followers",
    "lock_batches",
    "lock_held_job",
    "mark_batch_cancelled",
    "measure_lags",
    "measure_runs",
    "move_followers",
    "note_audit",
    "note_cancel_request",
    "note_run_now",
    "park_jobs",
    "pick_dead_letters",
    "pick_dead_of_group",
    "pick_dead_of_subject",
    "pick_jobs",
    "pick_jobs_by_id",
    "pick_jobs_of_batch",
    "pick_jobs_of_subject",
    "read_audit",
    "read_effect",
    "read_held_job",
    "register_worker",
    "replay_dead_letters",
    "report_usage",
    "rerun_jobs",
    "reset_effect",
    "resolve_followers",
    "retire_worker",
    "set_control",
    "store_progress",
    "store_signal",
    "sum_attempts",
    "tie_followers",
    "untie_followers",
    "wake_waiting",
})  # fmt: skip
"""The statements that a confined client may run."""

BY_LEASE = frozenset({"finish_alike", "finish_jobs", "park_jobs", "rerun_jobs"})
"""Those that change the jobs with these leases, whatever their org."""

_CONTROLS = frozenset({"lift_control", "set_control"})


def check_org(org_id: str, confined_to: str | None, policies: Policies) -> None:
    """Refuse an invalid org id, and any org but the one to which the client is confined."""
    check_text("org_id", org_id, longest=LONGEST["org_id"])
    if policies.settings.tenancy == "off":
        raise InvalidSetting('the application has tenancy="off": its jobs have no org to confine a client to')
    if confined_to not in {None, org_id}:
        raise _other_org(org_id, str(confined_to))


def check_project(project_id: str, confined_to: str | None) -> None:
    """Refuse an invalid project id, and any project but the one to which the client is confined."""
    check_text("project_id", project_id, longest=LONGEST["project_id"])
    if confined_to not in {None, project_id}:
        raise _other_project(project_id, str(confined_to))


def set_org(org_id: str | None, *, local: bool = True) -> Operation[None]:
    """Set the org whose rows the database's policies show, until the transaction's end or for the session."""
    yield Statement("set_org", {"org": org_id or "", "local": int(local)})


def org_of(jobs: Iterable[NewJob]) -> str | None:
    """Return the org of jobs that are stored together; raise NotAllowed if they are of several orgs.

    Row-level security lets one statement write for one org only.
    """
    orgs = {new.org_id for new in jobs if isinstance(new, NewJob)}
    if len(orgs) > 1:
        raise NotAllowed(
            f"one call would store jobs of {len(orgs)} orgs, but with row_security a call can store "
            "jobs of one org only; make one call for each org"
        )
    return next(iter(orgs), None)


def in_org(
    jobs: Iterable[NewJob], org: str | None, project: str | None = None, actor: Actor | None = None
) -> list[NewJob]:
    """Fill in a client's org, project and actor where jobs have none; refuse another org or project."""
    if org is None and project is None and actor is None:
        return list(jobs)
    return [_placed(new, org, project, actor) if isinstance(new, NewJob) else new for new in jobs]


def check_confined(statements: Sequence[Statement], scope: Scope) -> Operation[None]:
    """Refuse statements that a client of this scope may not run.

    Reads which org the parents of new jobs and the jobs of ends are of, which for a job never changes.
    """
    parents: set[JobId] = set()
    ending: set[JobId] = set()
    for statement in statements:
        if statement.name not in OF_ONE_ORG:
            raise not_allowed("this operation concerns all orgs", scope)
        params = statement.params
        if statement.name in _CONTROLS and not _is_own_pause(params, scope):
            what = f"{params['scope']} {params['name']!r}" if params["name"] else f"the {params['scope']}"
            reach = "one org" if scope.project_id is None else "one project"
            raise not_allowed(f"pausing or resuming {what} concerns more than {reach}", scope)
        if statement.name in BY_LEASE:
            sets = [rows for rows in params.values() if isinstance(rows, Rows)]
            ending |= {str(job_id) for rows in sets for job_id in _column(rows, "id") - {None}}
        # `changes` are for the jobs that hold the keys of new jobs.
        for rows in (params.get("jobs"), params.get("changes")):
            if isinstance(rows, Rows):
                _check_rows(rows, scope)
                parents |= {str(parent) for parent in _column(rows, "parent_id") - {None}}
    # A job of another org and a job that does not exist get the same answer, so that nothing leaks.
    if parents and (missing := sorted(parents - (yield from find_in_scope(parents)))):
        raise NotAllowed(
            f"parent_id {missing[0]} is no job of {scope}, so nothing was stored; "
            "give the id of a job that is"
        )
    if ending and (missing := sorted(ending - (yield from find_in_scope(ending)))):
        raise not_allowed(f"the end of job {missing[0]} is that of no job of {scope}", scope)


def find_in_scope(ids: Iterable[JobId]) -> Operation[frozenset[JobId]]:
    """Return those of some jobs that the client can see."""
    rows = yield Statement("find_in_scope", {"ids": as_json(sorted(ids))})
    return frozenset(job_id for (job_id,) in rows)


def not_allowed(what: str, scope: Scope) -> NotAllowed:
    """Return the error for something that a confined client may not do."""
    return NotAllowed(
        f"{what}, and this client is confined to {scope}; use a client of all orgs, outside of a handler "
        "and of app.context(org_id=…)"
    )


def _is_own_pause(params: Mapping[str, Scalar | Rows], scope: Scope) -> bool:
    """Whether a pause is that of the one org of a client; a project is a part of its org, and has none."""
    own = scope.project_id is None and scope.org_id is not None
    return own and (params["scope"], params["name"]) == ("org", scope.org_id)


def _check_rows(rows: Rows, scope: Scope) -> None:
    if scope.org_id is not None and (strange := _column(rows, "org_id") - {scope.org_id}):
        raise _other_org(strange.pop(), scope.org_id)
    if scope.project_id is not None and (strange := _column(rows, "project_id") - {scope.project_id}):
        raise _other_project(strange.pop(), scope.project_id)


def _placed(new: NewJob, org: str | None, project: str | None, actor: Actor | None) -> NewJob:
    if org is not None and new.org_id not in {None, org}:
        raise _other_org(new.org_id, org)
    if project is not None and new.project_id not in {None, project}:
        raise _other_project(new.project_id, project)
    filled: dict[str, str | None] = {"org_id": org or new.org_id, "project_id": project or new.project_id}
    # Type and id identify an actor only together, so both are filled in or neither.
    if actor is not None and new.actor_type is None and new.actor_id is None:
        filled |= {"actor_type": actor.type, "actor_id": actor.id}
    return msgspec.structs.replace(new, **filled)


def _column(rows: Rows, name: str) -> set[Scalar]:
    """Return the values of a column; a column in neither part of the set is null in all rows."""
    if name in rows.columns:
        at = rows.columns.index(name)
        return {row[at] for row in rows.values}
    return {rows.common.get(name)}


def _other_org(other: Scalar, org: str) -> NotAllowed:
    return NotAllowed(
        f"org_id is {other!r:.80}, and this client is confined to org {org!r}; "
        "leave it out, or use a client of that org"
    )


def _other_project(other: Scalar, project: str) -> NotAllowed:
    return NotAllowed(
        f"project_id is {other!r:.80}, and this client is confined to project {project!r}; "
        "leave it out, or use a client of that project"
    )
