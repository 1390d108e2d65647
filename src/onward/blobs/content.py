"""Reading and writing of content in pieces: no large file is ever in memory as a whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypedDict, cast

from onward.core.inputs.checks import check_kind
from onward.core.inputs.plain_text import kind_of
from onward.core.records.artifact import Expiry
from onward.errors import InvalidSetting

CHUNK = 1_048_576
"""The most bytes of a file that are in memory at a time."""

BYTES = (bytes, bytearray, memoryview)
"""The types of content that is in memory as a whole."""

Content = bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes]
"""Bytes, an open binary file, or pieces of bytes."""


class ArtifactOptions(TypedDict, total=False):
    """The options of an artifact that a handler stores: its content, the roles that may read it, expiry."""

    text: str | None
    path: str | os.PathLike[str] | None
    content_type: str | None
    roles: Sequence[str] | None
    expires: Expiry | None


class Blob(NamedTuple):
    """The digest and the size of content that was written or read."""

    sha256: str
    size: int


class Source:
    """Content that a caller gave as a path, as data or as text; it is read once."""

    def __init__(
        self, *, path: str | os.PathLike[str] | None, data: Content | None, text: str | None
    ) -> None:
        if (path is not None) + (data is not None) + (text is not None) != 1:
            raise InvalidSetting("an artifact needs content; give exactly one of path=, data= and text=")
        if text is not None:
            check_kind("an artifact's text", text, str, "give a str, or data=")
        if isinstance(data, str):
            raise InvalidSetting("an artifact's data is a str; give bytes, or text=")
        check_kind("an artifact's data", data or b"", Iterable, "give bytes or an open binary file")
        if path is not None:
            check_kind("an artifact's path", path, str | os.PathLike, "give the path of a file")
        self._path = None if path is None else Path(path)
        self._data = _encoded(text) if text is not None else data
        self._head: list[bytes] = []
        self._rest: Iterator[bytes] = iter(())

    def small(self, most: int) -> bytes | None:
        """Return the content if it has at most `most` bytes, else None; call it once, before `chunks`."""
        self._rest = self._read()
        size = 0
        for piece in self._rest:
            self._head.append(piece)
            size += len(piece)
            if size > most:
                return None
        return b"".join(self._head)

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces, from its beginning."""
        yield from self._head
        self._head.clear()
        yield from self._rest

    def _read(self) -> Iterator[bytes]:
        data = self._data
        if self._path is not None:
            if not self._path.is_file():
                raise InvalidSetting(f"{self._path} is no file; give the path of one that can be read")
            with self._path.open("rb") as file:
                yield from pieces(file)
        elif isinstance(data, BYTES):
            view = memoryview(data).cast("B")
            for start in range(0, len(view), CHUNK):
                yield bytes(view[start : start + CHUNK])
        elif hasattr(data, "read"):
            yield from pieces(cast("IO[bytes]", data))
        else:
            yield from _checked(data or ())


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSetting(
            f"an artifact's text has half a surrogate pair at {error.start}; decode its source as UTF-8"
        ) from None


def _checked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for piece in chunks:
        if not isinstance(piece, BYTES):
            raise InvalidSetting(f"a piece of an artifact is {kind_of(piece)}; give bytes")
        yield bytes(piece)


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of an open file in pieces of at most `CHUNK` bytes."""
    while piece := file.read(CHUNK):
        if not isinstance(piece, bytes):
            raise InvalidSetting("an artifact's file is open as text; open it with mode 'rb'")
        yield piece


def copied(chunks: Iterable[bytes], target: IO[bytes] | None) -> Blob:
    """Write the pieces to the target, if there is one, and return their digest and size."""
    digest, size = hashlib.sha256(), 0
    for piece in chunks:
        digest.update(piece)
        size += len(piece)
        if target is not None:
            target.write(piece)
    return Blob(digest.hexdigest(), size)
