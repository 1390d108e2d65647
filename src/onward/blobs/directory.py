"""Storage of artifacts in a local directory that only its owner can read.

Only the path of the directory itself may contain symbolic links. Below it every folder is opened relative to
its open parent and symbolic links are refused, so nothing that is put there can lead elsewhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onward.blobs.content import Blob, copied, pieces
from onward.errors import StorageFull, StoreUnreachable
from onward.logs import get_logger

log = get_logger("onward.artifacts")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOCK = ".lock"
_ABSENT = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR}


class DirectoryBlobs:
    """One directory, created when the first file is put."""

    def __init__(self, root: Path) -> None:
        # Absolute, because the process may change its working directory.
        self.root = root.absolute()
        self._warned = False

    @property
    def name(self) -> str:
        """The URL of the directory, to show to people."""
        return self.root.as_uri()

    def put(self, folder: str, chunks: Iterable[bytes]) -> Blob:
        """Write a file under the sha256 of its content; it is complete and durable, or not there at all."""
        with _translated(self.root), self._folder(folder, make=True) as place:
            part = f".{secrets.token_hex(16)}.part"
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                with os.fdopen(os.open(part, flags, 0o600, dir_fd=place), "wb") as file:
                    blob = copied(chunks, file)
                    file.flush()
                    os.fsync(file.fileno())
                self._publish(place, part, blob.sha256)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=place)
                raise
        return blob

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the content in pieces; raise FileNotFoundError if there is no such file."""
        folder, _, name = key.rpartition("/")
        with _reading(self.root), self._folder(folder) as place:
            # Non-blocking: opening a FIFO of this name would wait for ever.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(name, flags, dir_fd=place), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise FileNotFoundError(errno.ENOENT, "it is no file", name)
                yield from pieces(file)

    def remove(self, key: str, *, before: float) -> bool:
        """Remove a file if it was last put before `before`; return whether it was."""
        installation, org, *_ = key.split("/")
        folder, _, name = key.rpartition("/")
        with (
            suppress(FileNotFoundError),
            _reading(self.root),
            self._folder(f"{installation}/{org}") as top,
            self._folder(folder) as place,
            # No other process can put the file again between the check of its age and its removal.
            _locked(top, fcntl.LOCK_EX),
        ):
            if os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime < before:
                os.unlink(name, dir_fd=place)
                return True
        return False

    def keys(self, folder: str, *, before: float) -> Iterator[str]:
        """Yield the keys of the files last put before `before`, and of files that an interrupted put left."""
        found: list[tuple[str, bool]] = []
        with suppress(FileNotFoundError), _reading(self.root), self._folder(folder) as place:
            for name in sorted(os.listdir(place)):  # noqa: PTH208 - by descriptor
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=place, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        found.append((name, True))
                    elif name != _LOCK and status.st_mtime < before:
                        found.append((name, False))
        for name, is_folder in found:
            if is_folder:
                yield from self.keys(f"{folder}/{name}", before=before)
            else:
                yield f"{folder}/{name}"

    def _publish(self, place: int, part: str, sha256: str) -> None:
        with _opened(place, sha256[:2], make=True) as shard, _locked(place, fcntl.LOCK_SH):
            # Its age must count from now: a file that took long to write must not look old.
            os.utime(part, dir_fd=place, follow_symlinks=False)
            os.rename(part, sha256, src_dir_fd=place, dst_dir_fd=shard)
            os.fsync(shard)

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder below the root, one step at a time, so that no step follows a symbolic link."""
        if make:
            self._make_root()
        folder = os.open(self.root, _FOLDER)
        try:
            for name in path.split("/"):
                inner = _open(folder, name, make=make)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _make_root(self) -> None:
        if not self.root.is_dir():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.root.mkdir(mode=0o700)
        if not self._warned and stat.S_IMODE(self.root.stat().st_mode) & 0o077:
            self._warned = True
            log.warning("%s can be entered by others; chmod 700 keeps artifacts to their owner", self.root)


def _open(folder: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            os.fsync(folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def _opened(folder: int, name: str, *, make: bool) -> Iterator[int]:
    inner = _open(folder, name, make=make)
    try:
        yield inner
    finally:
        os.close(inner)


@contextmanager
def _locked(folder: int, how: int) -> Iterator[None]:
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(_LOCK, flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


@contextmanager
def _translated(root: Path) -> Iterator[None]:
    """Raise errors of the file system as StorageFull or StoreUnreachable."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StorageFull(f"no space is left for artifacts in {root}; nothing was stored") from error
        raise StoreUnreachable(f"artifacts in {root} can't be reached: {error.strerror or error}") from error


@contextmanager
def _reading(root: Path) -> Iterator[None]:
    """Raise FileNotFoundError if a path is missing or leads through a link; translate other errors."""
    try:
        yield
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFoundError(errno.ENOENT, "no such file among the artifacts") from error
        with _translated(root):
            raise
