"""A provider on loopback that answers as the path asks, and five clients that call it.

A path is one cell of the table in the guide: a status, a header or a word for the body after it; "hangs" and
"cuts the connection" do so. Of several parted by `|` each call gets the next; the last stays.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

import aiohttp
import httpx
import httpx2
import requests

__all__ = ["DATE", "Provider", "fetch", "fetch_async", "provider"]

DATE = "Fri, 02 Jan 2026 10:00:00 GMT"


class Provider(ThreadingHTTPServer):
    """Counts the calls of each path."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.calls: Counter[str] = Counter()
        self.closing = threading.Event()

    def url(self, answer: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{quote(answer, safe='')}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have hung up."""


class _Answering(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        asked = unquote(self.path.removeprefix("/"))
        self.server.calls[asked] += 1
        turns = asked.split("|")
        answer = turns[min(self.server.calls[asked], len(turns)) - 1]
        if answer == "hangs":
            self.server.closing.wait(20)
        elif answer == "cuts the connection":
            self.close_connection = True
        else:
            self._answer(answer)

    def _answer(self, answer: str) -> None:
        status, _, about = answer.partition(" ")
        name, is_header, value = about.partition(": ")
        body = b"" if is_header else about.encode()
        self.send_response_only(int(status))
        self.send_header("Date", DATE)
        if is_header:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def provider() -> Iterator[Provider]:
    """Serve in a thread."""
    server = Provider()
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        serving.join()
        server.server_close()


def _patience(url: str) -> float:
    return 0.3 if url.endswith("/hangs") else 20


def _by_httpx(url: str) -> None:
    with httpx.Client(timeout=_patience(url), trust_env=False, verify=False) as client:
        client.get(url).raise_for_status()


def _by_httpx2(url: str) -> None:
    with httpx2.Client(timeout=_patience(url), trust_env=False, verify=False) as client:
        client.get(url).raise_for_status()


def _by_requests(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=_patience(url)).raise_for_status()


def _by_urllib(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=_patience(url)).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise


CLIENTS: dict[str, Callable[[str], None]] = {
    "httpx": _by_httpx,
    "httpx2": _by_httpx2,
    "requests": _by_requests,
    "urllib": _by_urllib,
}


def fetch(client: str, url: str) -> None:
    """Call by a client; raises its error for an answer that is none."""
    CLIENTS[client](url)


async def fetch_async(url: str) -> None:
    """Do the same by aiohttp."""
    patience = aiohttp.ClientTimeout(total=_patience(url))
    async with aiohttp.ClientSession(timeout=patience) as session, session.get(url) as response:
        response.raise_for_status()
