"""Storage of artifacts in an object store such as S3, through obstore.

Credentials and region come from the environment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onward.blobs.content import CHUNK, Blob, copied
from onward.errors import InvalidSetting, MissingExtra, StoreUnreachable

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class ObjectBlobs:
    """One bucket, or a prefix of it."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self.name = name

    @classmethod
    def open(cls, url: str) -> ObjectBlobs:
        """Return the storage at a URL such as s3://bucket/prefix; its first use connects."""
        obstore = _obstore()
        try:
            return cls(obstore.store.from_url(url), url)
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise InvalidSetting(f"artifacts can't be kept at {url!r:.200}: {error}") from error

    def put(self, folder: str, chunks: Iterable[bytes]) -> Blob:
        """Write an object under the sha256 of its content; it is complete, or not there at all."""
        # Its key is known only after all of it was read. The temporary file is removed with this process.
        with tempfile.TemporaryFile() as file:
            blob = copied(chunks, file)
            file.seek(0)
            with self._translated():
                _obstore().put(self._store, f"{folder}/{blob.sha256[:2]}/{blob.sha256}", file)
        return blob

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the content in pieces, one request each; raise FileNotFoundError if there is no object."""
        with self._translated():
            reader = _obstore().open_reader(self._store, key, buffer_size=CHUNK)
            while piece := bytes(reader.read(CHUNK)):
                yield piece

    def remove(self, key: str, *, before: float) -> bool:
        """Remove an object if it was last put before `before`; return whether it was."""
        # A store has no lock: an object put again between these two calls, at least a day later, is lost.
        try:
            with self._translated():
                if _obstore().head(self._store, key)["last_modified"].timestamp() >= before:
                    return False
                _obstore().delete(self._store, key)
        except FileNotFoundError:
            return False
        return True

    def keys(self, folder: str, *, before: float) -> Iterator[str]:
        """Yield the keys of the objects last put before `before`."""
        with self._translated():
            for batch in _obstore().list(self._store, prefix=f"{folder}/"):
                for found in batch:
                    if found["last_modified"].timestamp() < before:
                        yield found["path"]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        obstore = _obstore()
        try:
            yield
        except (FileNotFoundError, obstore.exceptions.NotFoundError) as error:
            raise FileNotFoundError(f"no such object in {self.name}") from error
        except (obstore.exceptions.BaseError, OSError) as error:
            # Only the first line: the rest may quote a request with its signature.
            summary = str(error).partition("\n")[0][:200]
            raise StoreUnreachable(f"artifacts in {self.name} can't be reached: {summary}") from error


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise MissingExtra('object storage needs obstore: pip install "onward[s3]"') from error
    return obstore
