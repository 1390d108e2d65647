"""A bucket behind S3's protocol, as much of it as artifacts need, on a port of this machine."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["Bucket", "bucket"]


class Bucket:
    """Objects by their keys, with the time when each was put, which it may refuse."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.broken = False

    def age(self, span: timedelta) -> None:
        """Have everything been put so much earlier."""
        self.objects = {key: (body, at - span) for key, (body, at) in self.objects.items()}


@contextmanager
def bucket() -> Iterator[Bucket]:
    """Serve an empty bucket of any name."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.bucket = Bucket(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.bucket  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def bucket(self) -> Bucket:
        return self.server.bucket  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def key(self) -> str:
        return unquote(urlsplit(self.path).path).partition("/")[2].partition("/")[2]

    def reply(self, status: HTTPStatus, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.bucket.broken:
            self.reply(HTTPStatus.FORBIDDEN, b"<Error><Code>AccessDenied</Code></Error>")
            return
        self.bucket.objects[self.key()] = (body, datetime.now(UTC))
        self.reply(HTTPStatus.OK, ETag='"1"')

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.list(query.get("prefix", [""])[0])
            return
        if self.key() not in self.bucket.objects:
            self.reply(HTTPStatus.NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        body, at = self.bucket.objects[self.key()]
        about = {"Last_Modified": format_datetime(at, usegmt=True), "ETag": '"1"'}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self.reply(HTTPStatus.OK, body, **about)
            return
        start, end = int(asked[1]), min(int(asked[2]), len(body) - 1)
        about["Content_Range"] = f"bytes {start}-{end}/{len(body)}"
        self.reply(HTTPStatus.PARTIAL_CONTENT, body[start : end + 1], **about)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall(r"<Key>(.*?)</Key>", body)
        for key in keys:
            self.bucket.objects.pop(key, None)
        gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.reply(HTTPStatus.OK, f"<DeleteResult>{gone}</DeleteResult>".encode())

    def list(self, prefix: str) -> None:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{at.strftime('%Y-%m-%dT%H:%M:%S.000Z')}"
            f"</LastModified><ETag>1</ETag><Size>{len(body)}</Size></Contents>"
            for key, (body, at) in sorted(self.bucket.objects.items())
            if key.startswith(prefix)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        self.reply(HTTPStatus.OK, text.encode())
