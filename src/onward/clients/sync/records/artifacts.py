# Generated from src/onward/clients/records/artifacts.py by tools/make_sync.py. Edit that file instead.
"""Artifacts: files that jobs read and produce, with their checksums, owners and expiry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import IO
from uuid import UUID

from onward.blobs.content import Content, Source
from onward.clients.blocking import call
from onward.clients.records.artifact_files import Shelf, check, inlined, opened, outlined, some, whole_content
from onward.clients.records.artifact_settings import Keeping, new_artifact_id
from onward.clients.records.links import invalid, read_link, signed
from onward.clients.sync.binding import Binding
from onward.core.inputs.checks import check_kind, span
from onward.core.inputs.duration import Duration, duration
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.records.artifact import (
    Artifact,
    ArtifactPage,
    ArtifactRef,
    ArtifactsPruned,
    ArtifactsVerified,
    Expiry,
    Kept,
    NewArtifact,
    Owner,
)
from onward.errors import ArtifactCorrupt, ArtifactNotFound, InvalidSetting, LeaseLost
from onward.operations.records import artifacts

_SECOND = timedelta(seconds=1)

Which = Artifact | str | UUID
"""An artifact, its id, or its ref."""


class Artifacts:
    """Store, read, share and remove artifacts; all content is checked against its sha256 when read."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies
        self._keeping = Keeping(binding.store, binding.policies)

    def put(
        self,
        name: str,
        data: Content | None = None,
        *,
        text: str | None = None,
        path: str | os.PathLike[str] | None = None,
        org_id: str | None = None,
        project_id: str | None = None,
        job_id: JobId | UUID | None = None,
        content_type: str | None = None,
        roles: Sequence[str] | None = None,
        expires: Expiry | None = None,
    ) -> Artifact:
        """Store a file, for instance the input of a job: put its `.ref` into the payload."""
        new = NewArtifact.of(
            name, text=text is not None, content_type=content_type, roles=roles, expires=expires
        )
        source = Source(path=path, data=data, text=text)
        asked = Owner(
            org_id=org_id if org_id is not None else self._binding.org_id,
            project_id=project_id,
            job_id=None if job_id is None else normalise_id(job_id),
        )
        owner = self._run(
            partial(artifacts.owner_of, asked, self._binding.org_id, self._policies), write=False
        )
        kept = self._keep(owner.org_id, source)
        return self._run(partial(artifacts.add, new_artifact_id(), new, kept, owner))

    def add(
        self,
        job: Job,
        name: str,
        data: Content | None = None,
        *,
        text: str | None = None,
        path: str | os.PathLike[str] | None = None,
        content_type: str | None = None,
        roles: Sequence[str] | None = None,
        expires: Expiry | None = None,
    ) -> Artifact:
        """Store a file that a claimed job made; raises LeaseLost if another worker holds the job by now."""
        check_kind("job", job, Job, "give the job as claim() gave it")
        if expires is None:
            expires = self._policies.category_of(job).artifact_retention
        new = NewArtifact.of(
            name, text=text is not None, content_type=content_type, roles=roles, expires=expires
        )
        kept = self._keep(job.org_id, Source(path=path, data=data, text=text))
        made = self._run(partial(artifacts.add_of_job, new_artifact_id(), new, kept, job))
        if made is None:
            # Raised after the operation: inside it, the error would roll back the audit of the refusal.
            raise LeaseLost(
                f"job {job.id}: another worker holds it, or it has ended; artifact {name!r:.80} was refused"
            )
        return made

    def get(self, artifact: Which) -> Artifact:
        """Read the record of an artifact; raises ArtifactNotFound."""
        found, _ = self._find(artifact)
        return found

    def read(self, artifact: Which, *, role: str | None = None, job: Job | None = None) -> bytes:
        """Read the whole content; with `job`, only if the artifact is of the same org."""
        found, data = self._find(artifact, job=job)
        found.require_role(role)
        return call(whole_content, found, self._chunks(found, data))

    def open(self, artifact: Which, *, role: str | None = None, job: Job | None = None) -> IO[bytes]:
        """Return the content as an open file: a checked copy that is deleted when it is closed."""
        found, data = self._find(artifact, job=job)
        found.require_role(role)
        return call(opened, found, self._chunks(found, data))

    def list(
        self,
        *,
        job_id: JobId | UUID | None = None,
        name: str | None = None,
        org_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """Read a page of artifacts, newest first."""
        asked = None if job_id is None else normalise_id(job_id)
        return self._run(
            lambda: artifacts.list_artifacts(
                org_id=org_id, job_id=asked, name=name, limit=limit, cursor=cursor
            ),
            write=False,
        )

    def delete(self, artifact: Which, *, reason: str) -> Artifact:
        """Remove an artifact, which can't be read from now on.

        A later `prune()` removes its file.
        """
        ref = ArtifactRef.of(artifact)
        return self._run(lambda: artifacts.delete(ref.id, reason=reason))

    def verify(
        self, *, limit: int = 100, cursor: str | None = None, org_id: str | None = None
    ) -> ArtifactsVerified:
        """Read stored content again, newest first, and return the artifacts whose content has changed."""
        page = self.list(org_id=org_id, limit=limit, cursor=cursor)
        checked = 0
        corrupt: list[Artifact] = []
        for artifact in page.artifacts:
            try:
                found, data = self._find(artifact.id)
                checked += 1
                call(check, found, self._chunks(found, data))
            except ArtifactNotFound:
                continue
            except ArtifactCorrupt:
                corrupt.append(artifact)
        return ArtifactsVerified(checked, tuple(corrupt), page.cursor)

    def prune(self, *, limit: int = 500, grace: Duration = "1d") -> ArtifactsPruned:
        """Remove expired artifacts, and unused files that were last written over `grace` ago."""
        if self._binding.is_within:
            raise InvalidSetting("prune() removes files, which no rollback brings back; not within(tx)")
        kept_since = self._binding.now() - duration("grace", grace)
        before, removed = kept_since.timestamp(), 0
        expired = self._run(lambda: artifacts.expire(limit))
        shelf = self._shelf()
        old = shelf.old(before)
        while removed < limit and (keys := call(some, old)):
            digests = {key.rpartition("/")[2] for key in keys}
            used = self._run(partial(artifacts.used, digests), write=False)
            removed += call(shelf.remove_unused, keys, used, before=before)
        return ArtifactsPruned(len(expired), removed)

    def sign(self, artifact: Which, *, expires_in: Duration = "72h", role: str | None = None) -> str:
        """Return a token that opens an artifact for `expires_in`, for any holder of the token."""
        open_for, secret = (
            span("expires_in", duration("expires_in", expires_in), least=_SECOND),
            self._keeping.secret,
        )
        found, _ = self._find(artifact)
        found.require_role(role)
        return signed(found, self._binding.now() + open_for, secret)

    def check(self, token: str) -> Artifact:
        """Return the artifact that a token opens; raises InvalidLink."""
        found, _ = self._follow(token)
        return found

    def open_link(self, token: str) -> IO[bytes]:
        """Return the content that a token opens, as `open()` does; raises InvalidLink."""
        found, data = self._follow(token)
        return call(opened, found, self._chunks(found, data))

    def _follow(self, token: str) -> tuple[Artifact, str | None]:
        link = read_link(token, self._keeping.secret, self._binding.now())
        try:
            found, data = self._find(link.artifact_id)
        except ArtifactNotFound:
            raise invalid() from None
        if (found.org_id, found.sha256) != (link.org_id, link.sha256):
            raise invalid()
        return found, data

    def _find(self, artifact: Which, *, job: Job | None = None) -> tuple[Artifact, str | None]:
        ref = ArtifactRef.of(artifact)
        found, data = self._run(lambda: artifacts.get(ref.id, job=job), write=False)
        ref.require(found)
        return found, data

    def _keep(self, org_id: str | None, source: Source) -> Kept:
        content = call(source.small, self._keeping.inline_bytes)
        if content is not None:
            return inlined(content)
        shelf = self._shelf()
        return call(shelf.put, org_id, source)

    def _chunks(self, artifact: Artifact, data: str | None) -> Iterator[bytes]:
        if data is not None:
            return outlined(artifact, data)
        return (self._shelf()).read(artifact)

    def _shelf(self) -> Shelf:
        installation = self._run(artifacts.installation, write=False)
        return Shelf(self._keeping.blobs, installation)
