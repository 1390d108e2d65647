"""The content of the artifacts of one database: written, read back and checked, and removed.

Every function here blocks.
"""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import IO, cast

from onward.blobs import Blobs, folder_of, key_of
from onward.blobs.content import CHUNK, Source, copied
from onward.core.records.artifact import Artifact, StoredContent
from onward.errors import ArtifactCorrupt

_AT_ONCE = 500


class ArtifactFiles:
    """The files of one database, in the place where its application keeps them."""

    def __init__(self, blobs: Blobs, installation: str) -> None:
        self._blobs = blobs
        self._installation = installation

    def put(self, org_id: str | None, source: Source) -> StoredContent:
        """Write content for an org."""
        blob = self._blobs.put(folder_of(self._installation, org_id), source.chunks())
        return StoredContent(blob.sha256, blob.size, self._blobs.name)

    def read(self, artifact: Artifact) -> Iterator[bytes]:
        """Yield the content of an artifact in pieces, unchecked."""
        key = key_of(folder_of(self._installation, artifact.org_id), artifact.sha256)
        try:
            yield from self._blobs.read(key)
        except FileNotFoundError:
            raise ArtifactCorrupt(
                f"the content of artifact {artifact.id} is not in {self._blobs.name}; it was put into "
                f"{artifact.place}: bring it back there, or set artifacts= to where it is now"
            ) from None

    def old(self, before: float) -> Iterator[str]:
        """Return the keys of all files that were last written before a time."""
        return self._blobs.keys(self._installation, before=before)

    def remove_unused(
        self, keys: Collection[str], used: Iterable[tuple[str | None, str]], *, before: float
    ) -> int:
        """Remove files that no artifact uses; return how many."""
        needed = {key_of(folder_of(self._installation, org_id), sha256) for org_id, sha256 in used}
        return sum(self._blobs.remove(key, before=before) for key in keys if key not in needed)


def some(keys: Iterator[str]) -> list[str]:
    """Return the next keys, at most `_AT_ONCE`; an empty list at the end."""
    return list(islice(keys, _AT_ONCE))


def inlined(content: bytes) -> StoredContent:
    """Return small content in the form in which its row stores it."""
    blob = copied([content], None)
    return StoredContent(blob.sha256, blob.size, data=base64.b64encode(content).decode())


def outlined(artifact: Artifact, data: str) -> Iterator[bytes]:
    """Yield content that was stored in its row."""
    try:
        yield base64.b64decode(data, validate=True)
    except ValueError:
        raise _changed(artifact) from None


def opened(artifact: Artifact, chunks: Iterable[bytes]) -> IO[bytes]:
    """Return content as an unnamed temporary file, after checking that it is what was stored."""
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=CHUNK))  # noqa: SIM115 - the caller closes it
    try:
        check(artifact, chunks, file)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def read_all(artifact: Artifact, chunks: Iterable[bytes]) -> bytes:
    """Return content as one bytes object, after checking that it is what was stored."""
    file = io.BytesIO()
    check(artifact, chunks, file)
    return file.getvalue()


def check(artifact: Artifact, chunks: Iterable[bytes], target: IO[bytes] | None = None) -> None:
    """Copy content to `target`, if given, and raise ArtifactCorrupt if it is not what was stored."""
    blob = copied(chunks, target)
    if (blob.sha256, blob.size) != (artifact.sha256, artifact.size):
        raise _changed(artifact)


def _changed(artifact: Artifact) -> ArtifactCorrupt:
    return ArtifactCorrupt(
        f"the content of artifact {artifact.id} was changed since it was stored; bring it back from a backup"
    )
