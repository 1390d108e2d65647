"""A provider on loopback: does what it is asked for once a key, as Stripe and Resend do."""

from __future__ import annotations

import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["Provider", "charge"]


class Provider:
    """Counts calls and effects; the answer to a key that it knows is the first one's."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.effects: dict[str, int] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _do(self, key: str) -> int:
        with self._lock:
            self.calls.append(key)
            return self.effects.setdefault(key, len(self.effects) + 1)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = str(provider._do(self.headers["Idempotency-Key"])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Keep quiet."""

        return Handler


def charge(url: str, key: str) -> int:
    """Have the provider do its effect; gives the number of the charge."""
    asked = urllib.request.Request(url, b"", {"Idempotency-Key": key}, method="POST")
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return int(answer.read())
