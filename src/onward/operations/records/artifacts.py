"""The rows of artifacts; the caller stores the content before, and reads it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import check_reason, check_text, check_texts
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Job, instant, micros
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_id_cursor
from onward.core.policy.policies import Policies
from onward.core.records.artifact import (
    LONGEST_NAME,
    Artifact,
    NewArtifact,
    Owner,
    StoredContent,
)
from onward.core.secrets.redaction import redact_text
from onward.core.work.lease import check_lease
from onward.errors import ArtifactNotFound, ContractBroken, JobNotFound, NotAllowed
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json

_MICROSECOND = timedelta(microseconds=1)
_LIST = "artifacts.list"
MOST_EXPIRED = 1000


def owner_of(owner: Owner, policies: Policies) -> Operation[Owner]:
    """Fill in org and project from the owning job, if there is one; a job of another org is not found."""
    if owner.job_id is None:
        if owner.org_id is None and policies.settings.tenancy == "required":
            raise ContractBroken(
                "an artifact has no org, and tenancy='required' asks for one; use for_org() or job_id="
            )
        return owner
    rows = yield Statement("get_jobs", {"ids": as_json([normalise_id(owner.job_id)])})
    for row in rows:
        job = Job.from_row(row)
        if owner.org_id in {None, job.org_id}:
            return Owner(
                org_id=job.org_id,
                project_id=owner.project_id or job.project_id,
                job_id=job.id,
            )
    raise JobNotFound(f"no job {owner.job_id!r:.80}; it was never enqueued here, or has been removed")


def installation() -> Operation[str]:
    """Return the name that distinguishes the files of this database from those of others."""
    [[name]] = yield Statement("installation", {})
    return str(name)


def add(artifact_id: str, new: NewArtifact, content: StoredContent, owner: Owner) -> Operation[Artifact]:
    """Write the row of an artifact that a caller uploaded."""
    of = {
        "org_id": owner.org_id,
        "project_id": owner.project_id,
        "job_id": owner.job_id,
    }
    rows = yield Statement("add_artifact", {**_described(artifact_id, new, content), **of})
    return _artifact(rows[0])


def add_of_job(
    artifact_id: str, new: NewArtifact, content: StoredContent, job: Job
) -> Operation[Artifact | None]:
    """Write the row of an artifact that a running job made; None if its lease was lost, which is audited."""
    check_texts({"org_id": job.org_id})
    check_lease(job.lease, job.attempt)
    of: dict[str, Scalar] = {
        "job_id": normalise_id(job.id),
        "lease": job.lease,
        "attempt": job.attempt,
        "org_id": job.org_id,
    }
    rows = yield Statement("add_job_artifact", {**_described(artifact_id, new, content), **of})
    return _artifact(rows[0]) if rows else None


def get(artifact_id: str, *, job: Job | None = None) -> Operation[tuple[Artifact, str | None]]:
    """Read an artifact, and its content if that is in the database; a job reads only those of its org."""
    params: dict[str, Scalar] = {"id": artifact_id, "of_org": int(job is not None)}
    rows = yield Statement("get_artifact", {**params, "org_id": job.org_id if job else None})
    if not rows:
        raise _not_found(artifact_id)
    return _artifact(rows[0][:-1]), rows[0][-1]


def list_artifacts(
    *,
    job_id: JobId | None = None,
    name: str | None = None,
    limit: int = 50,
    cursor: Cursor | None = None,
) -> Operation[Page[Artifact]]:
    """Return a page of artifacts, newest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    if name is not None:
        check_text("name", name, longest=LONGEST_NAME)
    rows = yield Statement(
        "list_artifacts",
        {
            "job_id": job_id,
            "name": name,
            "below": read_id_cursor(_LIST, cursor),
            "limit": limit + 1,
        },
    )
    found = [_artifact(row) for row in rows[:limit]]
    return Page(found, make_cursor(_LIST, found[-1].id) if len(rows) > limit else None)


def delete(artifact_id: str, *, reason: str) -> Operation[Artifact]:
    """Remove the row of an artifact, and return the artifact."""
    reason = check_reason(reason)
    rows = yield Statement("delete_artifact", {"id": artifact_id, "reason": reason})
    if not rows:
        raise _not_found(artifact_id)
    return _artifact(rows[0])


def expire(limit: int) -> Operation[list[Artifact]]:
    """Remove the rows of at most `limit` expired artifacts, and return the artifacts."""
    whole_number("limit", limit, 1, MOST_EXPIRED)
    rows = yield Statement("expire_artifacts", {"limit": limit})
    return [_artifact(row) for row in rows]


def used(digests: Collection[str]) -> Operation[set[tuple[str | None, str]]]:
    """Return which of these contents are still referred to, and by which orgs."""
    rows = yield Statement("used_content", {"digests": as_json(sorted(digests))})
    if any(hidden for _, _, hidden in rows):
        raise NotAllowed(
            "row-level security hides artifacts from this role, whose files would seem unused; "
            "prune as the owner of the tables, or with a role that has BYPASSRLS"
        )
    return {(org_id, sha256) for org_id, sha256, _ in rows}


def _described(artifact_id: str, new: NewArtifact, content: StoredContent) -> dict[str, Scalar]:
    about: dict[str, Scalar] = {"name": new.name, "size": content.size, "sha256": content.sha256}
    return {
        "id": artifact_id,
        **about,
        "content_type": new.content_type,
        "place": content.place,
        "data": content.data,
        "roles": None if new.roles is None else as_json(new.roles),
        "keep_for": None if new.keep_for is None else new.keep_for // _MICROSECOND,
        "keep_until": None if new.keep_until is None else micros(new.keep_until),
        "detail": as_json({"artifact_id": artifact_id, **about, "name": redact_text(new.name)}),
    }


def _artifact(row: Row) -> Artifact:
    values: dict[str, Any] = dict(zip(Artifact.__struct_fields__, row, strict=True))
    values["roles"] = None if values["roles"] is None else tuple(decode(values["roles"]))
    values["created_at"] = instant(values["created_at"])
    values["expires_at"] = None if values["expires_at"] is None else instant(values["expires_at"])
    return Artifact(**values)


def _not_found(artifact_id: str) -> ArtifactNotFound:
    return ArtifactNotFound(
        f"no artifact {artifact_id}; it was never stored here, has expired or was deleted"
    )
