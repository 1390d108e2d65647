"""Servers on loopback that take alerts, or fail to: over HTTP and over SMTP."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import trustme

__all__ = [
    "Certificate",
    "Mail",
    "MailServer",
    "Received",
    "WebServer",
    "mail_server",
    "make_certificate",
    "web_server",
]


class Certificate(NamedTuple):
    """A certificate for `localhost`, and that of who issued it."""

    authority: str
    server: str


def make_certificate(folder: Path) -> Certificate:
    made = Certificate(str(folder / "authority.pem"), str(folder / "server.pem"))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made.authority)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(made.server)
    return made


class Received(NamedTuple):
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[socket.socket, threading.Event], None]


def says(text: bytes) -> Answer:
    return lambda stream, _: stream.sendall(text)


def _hangs(_stream: socket.socket, over: threading.Event) -> None:
    over.wait(30)


def _dribbles(stream: socket.socket, over: threading.Event) -> None:
    """Answer so slowly that each read is in time and the whole never is."""
    stream.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not over.wait(0.05):
        stream.sendall(b"a")


def _floods(stream: socket.socket, over: threading.Event) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while not over.is_set():
        stream.sendall(b"x" * 65536)


ANSWERS: dict[str, Answer] = {
    "/ok": says(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "/hang": _hangs,
    "/dribble": _dribbles,
    "/flood": _floods,
    "/cut": says(b""),
    "/garbage": says(b"\x00\x01 what?\r\n\r\n"),
    "/endless": says(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000),
    "/redirect": says(b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n"),
    "/500": says(b"HTTP/1.1 500 Oops\r\nContent-Length: 11\r\n\r\nsecret=text"),
}


@dataclass
class WebServer:
    """Where it listens, and what it was sent."""

    port: int
    received: list[Received] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def url(self, path: str = "/ok", *, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever hangs up on us does so on purpose."""


@contextmanager
def web_server(certificate: Certificate | None = None) -> Iterator[WebServer]:
    """An HTTP server that answers by the path; over TLS with a certificate."""
    over = threading.Event()
    context = None

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            stream = self.request if context is None else context.wrap_socket(self.request, server_side=True)
            with stream:
                found = _read_request(stream)
                if found is not None:
                    known.received.append(found)
                    ANSWERS[found.path](stream, over)

    with _Server(("127.0.0.1", 0), Handler) as server:
        known = WebServer(server.server_address[1])
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate.server)
            context.sni_callback = lambda _stream, name, _context: known.names.append(str(name))
        with _serving(server, over):
            yield known


@contextmanager
def _serving(server: socketserver.BaseServer, over: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        server.shutdown()
        thread.join()


def _read_request(stream: socket.socket) -> Received | None:
    file = stream.makefile("rb")
    request = file.readline().decode().split()
    if not request:
        return None
    headers: dict[str, str] = {}
    while line := file.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name] = value.strip()
    return Received(request[1], headers, file.read(int(headers.get("Content-Length", 0))))


class Mail(NamedTuple):
    """A message as it was handed over."""

    sender: str
    to: list[str]
    text: str
    login: str | None
    secure: bool


@dataclass
class MailServer:
    """Where it listens, and what it was sent."""

    port: int
    mails: list[Mail] = field(default_factory=list)


@contextmanager
def mail_server(certificate: Certificate | None = None, *, manner: str = "kind") -> Iterator[MailServer]:
    """An SMTP server, with a certificate for STARTTLS; it is kind, refusing, hanging or cutting.

    One that is dribbling is slow with its first word, one that is lingering with its last.
    """
    over = threading.Event()

    class Handler(_MailHandler):
        def setup(self) -> None:
            super().setup()
            self.mails, self.certificate, self.manner, self.over = known.mails, certificate, manner, over

    with _Server(("127.0.0.1", 0), Handler) as server:
        known = MailServer(server.server_address[1])
        with _serving(server, over):
            yield known


class _MailHandler(socketserver.StreamRequestHandler):
    """One conversation of SMTP."""

    mails: list[Mail]
    certificate: Certificate | None
    manner: str
    over: threading.Event

    def handle(self) -> None:
        if self.manner == "hanging":
            self.over.wait(30)
            return
        if self.manner == "dribbling":
            self.dribble("220-")
            return
        self.login: str | None = None
        self.secure = False
        self.sender, self.to = "", list[str]()
        self.say("220 here")
        while line := self.rfile.readline().decode().strip():
            verb, _, rest = line.partition(" ")
            if verb.upper() == "QUIT" and self.manner == "lingering":
                self.dribble("what? ")
            if verb.upper() == "QUIT" or self.manner == "cutting":
                return
            self.answer(verb.upper(), rest)

    def answer(self, verb: str, rest: str) -> None:
        match verb:
            case "EHLO":
                extra = ["250-AUTH PLAIN"] if self.secure else ["250-STARTTLS"] * bool(self.certificate)
                self.say("250-here", *extra, "250 SIZE 100000")
            case "STARTTLS" if self.certificate is not None:
                self.say("220 go on")
                self.wrap(self.certificate)
            case "AUTH":
                self.login = rest
                self.say("235 welcome")
            case "MAIL":
                self.sender = rest
                self.say("250 fine")
            case "RCPT":
                self.to.append(rest)
                self.say("550 nobody here" if self.manner == "refusing" else "250 fine")
            case "DATA":
                self.take()
            case _:
                self.say("250 fine" if verb in {"RSET", "NOOP"} else "502 no such thing")

    def take(self) -> None:
        self.say("354 go on")
        text = b""
        while (line := self.rfile.readline()) != b".\r\n":
            text += line
        self.mails.append(Mail(self.sender, self.to, text.decode(), self.login, self.secure))
        self.say("250 taken")

    def wrap(self, certificate: Certificate) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.server)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.secure = True

    def dribble(self, text: str) -> None:
        self.wfile.write(text.encode())
        while not self.over.wait(0.05):
            self.wfile.write(b"a")

    def say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())
        self.wfile.flush()

    def finish(self) -> None:
        super().finish()
        self.connection.close()
