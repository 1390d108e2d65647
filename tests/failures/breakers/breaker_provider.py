"""A provider on loopback that answers as it is told, and counts who called."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Provider", "fetch", "provided"]


def fetch(url: str) -> None:
    """Call a provider; raises what urllib raises."""
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise


class Provider:
    """Answers with `status`, and with `retry_after` where one is set."""

    def __init__(self) -> None:
        self.status = 429
        self.retry_after: str | None = None
        self.calls: list[str] = []
        self.most_at_once = 0
        self.slow: Callable[[], object] = lambda: None
        self._under_way = 0
        self._counting = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._counting:
            self.calls.append(request.path)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        # Long enough for calls to overlap that are made at once.
        time.sleep(0.003)
        self.slow()
        with self._counting:
            self._under_way -= 1
        try:
            request.send_response(self.status)
            if self.retry_after is not None and self.status >= 400:
                request.send_header("Retry-After", self.retry_after)
            request.send_header("Content-Length", "0")
            request.end_headers()
        except OSError:
            # Who called is dead.
            pass

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def provided() -> Iterator[Provider]:
    """A provider for a test."""
    provider = Provider()
    try:
        yield provider
    finally:
        provider.close()
