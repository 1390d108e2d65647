"""A TCP proxy before PostgreSQL: counts round trips, plays a pooler, goes deaf."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

ROUND_TRIPS = {b"S", b"Q"}  # Sync and simple Query: each is answered before the client goes on.
BACKEND_KEY = b"K" + struct.pack("!I", 12)
STARTS_A_SESSION = 0x0003_0000


class PostgresProxy:
    """Stands between a client and the server on loopback, with two threads for each connection."""

    def __init__(self, url: str, *, pooler: bool = False) -> None:
        self._parts = urlsplit(url)
        self._pooler = pooler
        self._deaf = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self.round_trips = 0
        self.connections = 0

    @property
    def url(self) -> str:
        """The server's address by way of the proxy."""
        user = f"{self._parts.username}@" if self._parts.username else ""
        port = self._listener.getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def go_deaf(self) -> None:
        """Swallow whatever the server says from now on, without closing anything."""
        self._deaf.set()

    def hear_again(self) -> None:
        """Forward again; what was swallowed stays lost."""
        self._deaf.clear()

    def close(self) -> None:
        """Cut every connection."""
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for end in self._sockets:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(
                    (self._parts.hostname or "127.0.0.1", self._parts.port or 5432)
                )
                self.connections += 1
                self._sockets += [client, server]
                for pump in (self._ask, self._answer):
                    thread = threading.Thread(target=pump, args=(client, server), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        session = False
        with suppress(OSError, EOFError):
            while True:
                kind = read(client, 1) if session else b""
                head = read(client, 4)
                body = read(client, struct.unpack("!I", head)[0] - 4)
                # Before a session there are packets without a kind; one may ask for encryption first.
                session = session or struct.unpack("!I", body[:4])[0] == STARTS_A_SESSION
                self.round_trips += kind in ROUND_TRIPS
                server.sendall(kind + head + body)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if self._pooler and (at := data.find(BACKEND_KEY)) >= 0:
                    # As a pooler does: a process id that is not the server's.
                    data = data[: at + 5] + struct.pack("!I", 4_242_424) + data[at + 9 :]
                if not self._deaf.is_set():
                    client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def read(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


@contextmanager
def proxied(url: str, *, pooler: bool = False) -> Iterator[PostgresProxy]:
    """A proxy before the server of a URL."""
    proxy = PostgresProxy(url, pooler=pooler)
    try:
        yield proxy
    finally:
        proxy.close()
