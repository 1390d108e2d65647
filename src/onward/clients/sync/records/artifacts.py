# Generated from src/onward/clients/records/artifacts.py by tools/make_sync.py. Edit that file instead.
"""Artifacts: files that jobs read and produce, with their checksums, owners and expiry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import IO, Annotated

from msgspec import Meta

from onward.blobs.content import BYTES, Content, Source
from onward.clients.records.artifact_settings import new_artifact_id
from onward.clients.records.links import invalid, read_link, signed
from onward.clients.sync.binding import Binding
from onward.clients.sync.records.artifact_content import ArtifactContent, Found
from onward.core.inputs.checks import span
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.plain_text import kind_of
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.page import Cursor, Page, PageSize
from onward.core.records.artifact import (
    AnyArtifact,
    Artifact,
    ArtifactRef,
    ArtifactsPruned,
    ArtifactsVerified,
    Expiry,
    NewArtifact,
    Owner,
)
from onward.errors import ArtifactCorrupt, ArtifactNotFound, InvalidSetting
from onward.operations.records import artifacts

_SECOND = timedelta(seconds=1)


class Artifacts:
    """Store, read, share and remove artifacts; all content is checked against its sha256 when read.

    An artifact belongs to the org and the project of its client or of the code around, or to those of a job.
    Reading raises ArtifactNotFound, ArtifactCorrupt if the content was changed, and InvalidSetting for a text
    that is neither an id nor a ref.
    """

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run
        self._content = ArtifactContent(binding)

    def put(
        self,
        name: str,
        data: bytes | None = None,
        *,
        text: str | None = None,
        job_id: AnyJobId | None = None,
        content_type: str | None = None,
        roles: Sequence[str] | None = None,
        expires: Expiry | None = None,
    ) -> Artifact:
        """Store bytes or a text, for instance the input of a job: put its `.ref` into the payload.

        Raises InvalidSetting, InvalidJob, JobNotFound, and ContractBroken if every artifact must have an org.
        """
        if data is not None and not isinstance(data, BYTES):
            raise InvalidSetting(f"an artifact's data is {kind_of(data)}; give bytes, or use put_file()")
        new = NewArtifact.of(
            name, text=text is not None, content_type=content_type, roles=roles, expires=expires
        )
        return self._store(new, Source(path=None, data=data, text=text), job_id)

    def put_file(
        self,
        name: str,
        file: str | os.PathLike[str] | Content,
        *,
        job_id: AnyJobId | None = None,
        content_type: str | None = None,
        roles: Sequence[str] | None = None,
        expires: Expiry | None = None,
    ) -> Artifact:
        """Store the file at a path, an open file or pieces of bytes, which are read piece by piece.

        Raises what `put()` raises.
        """
        new = NewArtifact.of(name, text=False, content_type=content_type, roles=roles, expires=expires)
        if isinstance(file, str | os.PathLike):
            return self._store(new, Source(path=file, data=None, text=None), job_id)
        return self._store(new, Source(path=None, data=file, text=None), job_id)

    def get(self, artifact: AnyArtifact) -> Artifact:
        """Return the record of an artifact."""
        found, _ = self._content.find(artifact)
        return found

    def read(self, artifact: AnyArtifact, *, role: str | None = None) -> bytes:
        """Return the whole content; raises NotAllowed unless the artifact is open to the role."""
        return self._content.read(self._content.find_for(artifact, role))

    def open(self, artifact: AnyArtifact, *, role: str | None = None) -> IO[bytes]:
        """Return the content as an open file: a checked copy that is deleted when it is closed.

        Raises NotAllowed unless the artifact is open to the role.
        """
        return self._content.open(self._content.find_for(artifact, role))

    def list(
        self,
        *,
        job_id: AnyJobId | None = None,
        name: str | None = None,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> Page[Artifact]:
        """Return a page of artifacts, newest first.

        Raises InvalidSetting, and InvalidJob for a bad id or name.
        """
        of_job = None if job_id is None else normalise_id(job_id)
        return self._run(
            lambda: artifacts.list_artifacts(job_id=of_job, name=name, limit=limit, cursor=cursor),
            write=False,
        )

    def delete(self, artifact: AnyArtifact, *, reason: str) -> Artifact:
        """Remove an artifact, which can't be read from now on; raises InvalidJob for a bad reason.

        A later `prune()` removes its file.
        """
        ref = ArtifactRef.of(artifact)
        return self._run(lambda: artifacts.delete(ref.id, reason=reason))

    def verify(self, *, limit: PageSize = 100, cursor: Cursor | None = None) -> ArtifactsVerified:
        """Read a page of stored content again, newest first, and return the artifacts that were changed.

        Raises InvalidSetting.
        """
        page = self.list(limit=limit, cursor=cursor)
        checked = 0
        corrupt: list[Artifact] = []
        for artifact in page:
            try:
                found = self._content.find(artifact.id)
                checked += 1
                self._content.check(found)
            except ArtifactNotFound:
                continue
            except ArtifactCorrupt:
                corrupt.append(artifact)
        return ArtifactsVerified(checked, tuple(corrupt), page.next_cursor)

    def prune(
        self, *, limit: Annotated[int, Meta(ge=1, le=artifacts.MOST_EXPIRED)] = 500, grace: Duration = "1d"
    ) -> ArtifactsPruned:
        """Remove expired artifacts, and unused files that were last written over `grace` ago.

        Raises InvalidSetting, and NotAllowed for a client of one org.
        """
        if self._binding.is_within:
            raise InvalidSetting("prune() removes files, which no rollback brings back; not within(tx)")
        before = self._binding.now() - duration("grace", grace)
        expired = self._run(lambda: artifacts.expire(limit))
        removed = self._content.remove_unused(limit, before.timestamp())
        return ArtifactsPruned(len(expired), removed)

    def sign(self, artifact: AnyArtifact, *, expires_in: Duration = "72h", role: str | None = None) -> str:
        """Return a token that opens an artifact for `expires_in`, for any holder of the token.

        Raises NotAllowed unless the artifact is open to the role, InvalidSetting if no secret is set, and
        MissingExtra without PyJWT.
        """
        open_for, secret = (
            span("expires_in", duration("expires_in", expires_in), least=_SECOND),
            self._content.secret,
        )
        found, _ = self._content.find_for(artifact, role)
        return signed(found, self._binding.now() + open_for, secret)

    def check(self, token: str) -> Artifact:
        """Return the artifact that a token opens; raises InvalidLink, InvalidSetting and MissingExtra."""
        found, _ = self._follow(token)
        return found

    def open_link(self, token: str) -> IO[bytes]:
        """Return the content that a token opens, as `open()` does; raises what `check()` raises."""
        return self._content.open(self._follow(token))

    def _store(self, new: NewArtifact, source: Source, job_id: AnyJobId | None) -> Artifact:
        scope = self._binding.scope
        of_job = None if job_id is None else normalise_id(job_id)
        named = Owner(org_id=scope.org_id, project_id=scope.project_id, job_id=of_job)
        owner = self._run(partial(artifacts.owner_of, named, self._binding.policies), write=False)
        content = self._content.store(owner.org_id, source)
        return self._run(partial(artifacts.add, new_artifact_id(), new, content, owner))

    def _follow(self, token: str) -> Found:
        link = read_link(token, self._content.secret, self._binding.now())
        try:
            found, data = self._content.find(link.artifact_id)
        except ArtifactNotFound:
            raise invalid() from None
        if (found.org_id, found.sha256) != (link.org_id, link.sha256):
            raise invalid()
        return found, data
