"""Where the content of artifacts lies when it is too large for the database: files, named by their sha256.

A file is `<installation>/<org>/<two letters>/<sha256>`: installations and orgs share none, and no part of it
comes from text that a user chose. Whoever puts a file writes it anew, so its age tells when it was last put,
and only an old one is ever removed.
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
        """Tell people where it is; holds no secret."""
        ...

    def put(self, folder: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file under the sha256 of its content; it is whole and durable, or not there at all."""
        ...

    def read(self, key: str) -> Iterator[bytes]:
        """Give the content in pieces; raises FileNotFoundError."""
        ...

    def remove(self, key: str, *, before: float) -> bool:
        """Remove what was last put before that time, in seconds since 1970; False if there is no such."""
        ...

    def keys(self, folder: str, *, before: float) -> Iterator[str]:
        """Give what was last put before that time, also what an interrupted put has left."""
        ...


def folder_of(installation: str, org_id: str | None) -> str:
    """Name the folder of an org: by a hash, since an org's name may be any text."""
    org = "none" if org_id is None else hashlib.sha256(org_id.encode()).hexdigest()
    return f"{installation}/{org}"


def key_of(folder: str, sha256: str) -> str:
    """Name the file of some content."""
    return f"{folder}/{sha256[:2]}/{sha256}"


@lru_cache(maxsize=64)
def open_blobs(place: str) -> Blobs:
    """Open a directory, or what a URL names; nothing is made or connected to before it is used."""
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
