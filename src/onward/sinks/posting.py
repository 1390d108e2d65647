"""One HTTP POST to a checked address.

It follows no redirects, uses no proxies, takes a bounded time, and reads only the status of the answer.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from onward.sinks.guard import NotSent, Target, addresses_of

_FIRST_GOOD, _FIRST_REDIRECT, _FIRST_REFUSAL = 200, 300, 400


def post(
    target: Target, body: bytes, headers: Mapping[str, str], *, seconds: float, cafile: str | None = None
) -> None:
    """Send a body; raise NotSent unless a 2xx status arrives within `seconds`."""
    until = time.monotonic() + seconds
    addresses = addresses_of(target, seconds)
    try:
        with _connected(target, addresses, until) as connected, cut_off_after(until, connected):
            status = _exchange(target, _secured(connected, target, cafile), body, headers)
        if time.monotonic() >= until:
            # If the connection is cut while the headers arrive, the parser takes that for their end.
            raise TimeoutError
    except (OSError, HTTPException, ValueError) as error:
        late = time.monotonic() >= until
        reason = f"no answer within {seconds:g} s" if late else _described(error)
        raise NotSent(f"{target.shown}: {reason}") from None
    if _FIRST_REDIRECT <= status < _FIRST_REFUSAL:
        raise NotSent(f"{target.shown} answered with status {status}, a redirect, which is not followed")
    if not _FIRST_GOOD <= status < _FIRST_REDIRECT:
        raise NotSent(f"{target.shown} answered with status {status}")


@contextmanager
def cut_off_after(until: float, connected: socket.socket) -> Iterator[None]:
    """Shut a connection down at `until`.

    A socket time-out would not stop a server that sends one byte at a time.
    """
    # A duplicate handle, because wrapping a socket for TLS detaches the original one.
    handle = socket.socket(fileno=os.dup(connected.fileno()))

    def cut() -> None:
        with suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, until - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        handle.close()


@contextmanager
def _connected(target: Target, addresses: list[str], until: float) -> Iterator[socket.socket]:
    last: OSError = TimeoutError("timed out")
    for address in addresses:
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            # Connect by address: the name might now resolve to one that was not checked.
            connected = socket.create_connection((address, target.port), timeout=left)
        except OSError as error:
            last = error
            continue
        with connected:
            yield connected
        return
    raise last


def _secured(connected: socket.socket, target: Target, cafile: str | None) -> socket.socket:
    if not target.secure:
        return connected
    return _tls(cafile).wrap_socket(connected, server_hostname=target.host)


@lru_cache(maxsize=8)
def _tls(cafile: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=cafile)


def _exchange(target: Target, stream: socket.socket, body: bytes, headers: Mapping[str, str]) -> int:
    kind = HTTPSConnection if target.secure else HTTPConnection
    http = kind(target.host, target.port)
    http.auto_open = 0
    http.sock = stream
    try:
        http.request("POST", target.path, body, {**headers, "Connection": "close"})
        # The body is not read: nothing of it may reach an error message or a log.
        return http.getresponse().status
    finally:
        http.close()
        stream.close()


def _described(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted ({error.verify_message})"
        case TimeoutError():
            return "no answer in time"
        case OSError() if error.strerror:
            return error.strerror
    return f"not a valid HTTP answer ({type(error).__name__})"
