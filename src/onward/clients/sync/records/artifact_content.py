# Generated from src/onward/clients/records/artifact_content.py by tools/make_sync.py. Edit that file instead.
"""The content of artifacts: small content is in the database, larger content in files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO

from onward.blobs.content import Source
from onward.clients.blocking import call
from onward.clients.records.artifact_files import (
    ArtifactFiles,
    check,
    inlined,
    opened,
    outlined,
    read_all,
    some,
)
from onward.clients.records.artifact_settings import ArtifactSettings
from onward.clients.sync.binding import Binding
from onward.core.jobs.job import Job
from onward.core.records.artifact import AnyArtifact, Artifact, ArtifactRef, StoredContent
from onward.operations.records import artifacts

Found = tuple[Artifact, str | None]
"""An artifact, and its content if that is in the database."""


class ArtifactContent:
    """Stores content, and reads it back; all content is checked against its sha256 when it is read."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._settings = ArtifactSettings(binding.store, binding.policies)

    @property
    def secret(self) -> str:
        """The secret that signs links."""
        return self._settings.secret

    def store(self, org_id: str | None, source: Source) -> StoredContent:
        """Store content for an org."""
        content = call(source.small, self._settings.inline_bytes)
        if content is not None:
            return inlined(content)
        files = self._files()
        return call(files.put, org_id, source)

    def find(self, artifact: AnyArtifact, *, job: Job | None = None) -> Found:
        """Return an artifact; with `job`, only if it is of the same org."""
        ref = ArtifactRef.of(artifact)
        found, data = self._run(lambda: artifacts.get(ref.id, job=job), write=False)
        ref.require(found)
        return found, data

    def find_for(self, artifact: AnyArtifact, role: str | None, *, job: Job | None = None) -> Found:
        """Return an artifact that a role may read."""
        found = self.find(artifact, job=job)
        found[0].require_role(role)
        return found

    def read(self, found: Found) -> bytes:
        """Return the content as bytes."""
        return call(read_all, found[0], self._chunks(found))

    def open(self, found: Found) -> IO[bytes]:
        """Return the content as an open file: a checked copy that is deleted when it is closed."""
        return call(opened, found[0], self._chunks(found))

    def check(self, found: Found) -> None:
        """Raise ArtifactCorrupt if the content is not what was stored."""
        call(check, found[0], self._chunks(found))

    def remove_unused(self, limit: int, before: float) -> int:
        """Remove unused files that were last written before a time; return how many.

        It stops after `limit` of them.
        """
        files = self._files()
        old, removed = files.old(before), 0
        while removed < limit and (keys := call(some, old)):
            digests = {key.rpartition("/")[2] for key in keys}
            used = self._run(partial(artifacts.used, digests), write=False)
            removed += call(files.remove_unused, keys, used, before=before)
        return removed

    def _chunks(self, found: Found) -> Iterator[bytes]:
        artifact, data = found
        if data is not None:
            return outlined(artifact, data)
        return (self._files()).read(artifact)

    def _files(self) -> ArtifactFiles:
        installation = self._run(artifacts.installation, write=False)
        return ArtifactFiles(self._settings.blobs, installation)
