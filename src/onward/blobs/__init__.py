"""Storage for the content of artifacts that is too large for the database: files named by their sha256.

A file is `<installation>/<org>/<two letters>/<sha256>`: installations and orgs share no file, and no part of
the path comes from text that a user chose. Every put writes the file again, so its age shows when it was last
put, and only an old file is ever removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from onward.blobs.content import Blob
from onward.blobs.directory import DirectoryBlobs
from onward.errors import InvalidSetting

__all__ = ["Blobs", "folder_of", "key_of", "open_blobs"]

_CLOUDS = {"s3", "s3a", "gs", "az", "azure", "abfs", "abfss"}


class Blobs(Protocol):
    """A place for files; all of its methods block."""

    @property
    def name(self) -> str:
        """The place to show to people; holds no secret."""
        ...

    def put(self, folder: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file under the sha256 of its content; it is complete and durable, or not there at all."""
        ...

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the content in pieces; raise FileNotFoundError if there is no such file."""
        ...

    def remove(self, key: str, *, before: float) -> bool:
        """Remove a file if it was last put before `before`, in seconds since 1970; return whether it was."""
        ...

    def keys(self, folder: str, *, before: float) -> Iterator[str]:
        """Yield the keys of the files last put before `before`, and of files that an interrupted put left."""
        ...


def folder_of(installation: str, org_id: str | None) -> str:
    """Return the folder of an org; it is a hash, since an org's name may be any text."""
    org = "none" if org_id is None else hashlib.sha256(org_id.encode()).hexdigest()
    return f"{installation}/{org}"


def key_of(folder: str, sha256: str) -> str:
    """Return the key of the file with this content."""
    return f"{folder}/{sha256[:2]}/{sha256}"


@lru_cache(maxsize=64)
def open_blobs(place: str) -> Blobs:
    """Return the storage at a directory or a URL; its first use creates or connects to it."""
    if "://" not in place:
        return DirectoryBlobs(Path(place))
    parts = urlsplit(place)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return DirectoryBlobs(Path(unquote(parts.path)))
    if parts.scheme in _CLOUDS and parts.netloc and "@" not in parts.netloc:
        from onward.blobs.objects import ObjectBlobs

        return ObjectBlobs.open(place)
    raise InvalidSetting(
        f"artifacts are to be kept at a URL of scheme {parts.scheme!r:.20}; give a directory, or "
        "s3://bucket/prefix, gs://…, az://… without credentials: those come from the environment"
    )
