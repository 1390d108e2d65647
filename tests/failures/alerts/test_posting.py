"""Webhooks and chats: signed, to checked addresses only, and within a time whatever the other side does."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from onward import InvalidSetting, SlackSink, WebhookSink, verify_signature
from onward.results import Alert
from onward.sinks.guard import NotSent
from onward.sinks.slack import escaped
from onward.sinks.webhook import sign
from tests.failures.alerts.samples import alert
from tests.failures.alerts.servers import Certificate, WebServer, web_server

SECRET = "a secret that the two share"
LOCAL: dict[str, Any] = {"allow_http": True, "allow_private": True}


@pytest.fixture(scope="module")
def server():
    with web_server() as server:
        yield server


def sink(server: WebServer, path: str = "/ok", timeout: float = 5) -> WebhookSink:
    return WebhookSink(server.url(path), secret=SECRET, timeout=timeout, **LOCAL)


def test_a_webhook_is_signed_and_its_event_can_be_recognised(server):
    sink(server).send(alert())
    received = server.received[-1]
    assert received.headers["Onward-Event-Id"] == "d1f3a2b4c5d6.1"
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["Host"] == f"127.0.0.1:{server.port}"
    assert msgspec.json.decode(received.body, type=Alert) == alert()
    header = received.headers["Onward-Signature"]
    assert verify_signature(SECRET, header, received.body)
    assert not verify_signature(SECRET, header, received.body + b" ")
    assert not verify_signature("another secret", header, received.body)
    assert not verify_signature(SECRET, header, received.body, now=time.time() + 301)


def test_the_body_has_the_schema_that_is_documented(server):
    sink(server).send(alert())
    body = json.loads(server.received[-1].body)
    assert set(body) == set(Alert.__struct_fields__)
    assert (body["version"], body["kind"], body["count"]) == (1, "integration_error", 1)
    assert body["first_at"] == "2026-05-01T12:00:00Z"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        "v1=00",
        "t=x,v1=00",
        "t=1,v1=é",
        "t=-1,v1=00",
        ",v1=",
        f"t={'9' * 400},v1=0",
        f"t={'9' * 5000},v1=0",
    ],
)
def test_a_header_that_is_no_signature_is_refused(header):
    assert not verify_signature(SECRET, header, b"{}", now=1)


def test_a_signature_covers_its_time():
    header = sign(SECRET, b"{}", 1000)
    assert verify_signature(SECRET, header, b"{}", now=1000)
    assert not verify_signature(SECRET, header.replace("t=1000", "t=1001"), b"{}", now=1000)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/500", "answered with status 500"),
        ("/redirect", "a redirect, which is not followed"),
        ("/cut", "not a valid HTTP answer"),
        ("/garbage", "not a valid HTTP answer"),
        ("/endless", "not a valid HTTP answer"),
    ],
)
def test_what_is_not_taken_is_an_error_that_shows_nothing_of_the_answer(server, path, told):
    before = len(server.received)
    with pytest.raises(NotSent, match=told) as failed:
        sink(server, path).send(alert())
    assert "secret=text" not in str(failed.value)
    assert len(server.received) == before + 1, "it was sent once, and no redirect was followed"


@pytest.mark.parametrize("path", ["/hang", "/dribble"])
def test_the_whole_exchange_has_a_time_limit(server, path):
    began = time.monotonic()
    with pytest.raises(NotSent, match=r"no answer within 0\.3 s"):
        sink(server, path, timeout=0.3).send(alert())
    assert time.monotonic() - began < 2


def test_a_huge_answer_is_not_read(server):
    began = time.monotonic()
    sink(server, "/flood").send(alert())
    assert time.monotonic() - began < 2


def test_nobody_there_is_an_error():
    with web_server() as gone:
        url = gone.url()
    with pytest.raises(NotSent, match="refused"):
        WebhookSink(url, **LOCAL).send(alert())
    with pytest.raises(NotSent, match=r"there is no host nowhere\.invalid"):
        WebhookSink("https://nowhere.invalid/").send(alert())


def test_over_tls_the_name_is_asked_for_and_checked_though_the_address_was_resolved_before(
    certificate: Certificate,
):
    with web_server(certificate) as secure:
        url = secure.url(scheme="https", host="localhost")
        WebhookSink(url, allow_private=True, cafile=certificate.authority).send(alert())
        assert secure.names == ["localhost"]
        assert secure.received[0].headers["Host"] == f"localhost:{secure.port}"
        with pytest.raises(NotSent, match="the server's certificate is not trusted"):
            WebhookSink(url, allow_private=True).send(alert())
        other = secure.url(scheme="https", host="127.0.0.1")
        with pytest.raises(NotSent, match="the server's certificate is not trusted"):
            WebhookSink(other, allow_private=True, cafile=certificate.authority).send(alert())
        assert len(secure.received) == 1


def test_proxies_of_the_environment_are_not_used(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    sink(server).send(alert())


def test_a_chat_is_sent_a_text_without_links_and_mentions(server):
    made = SlackSink(server.url(), **LOCAL)
    made.send(alert(message="<!channel> & <https://evil.example|here> @everyone"))
    body = json.loads(server.received[-1].body)
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;" in body["text"]
    assert "<" not in body["text"]
    assert "@everyone" not in body["text"]
    assert body["text"].startswith("integration_error: crm.sync_contact died")
    assert escaped("a@b") == "a@\u200bb"
    assert "](" not in escaped("![x](https://evil.example/seen.png)")


def test_neither_the_secret_nor_the_path_of_a_url_is_shown(server):
    made = WebhookSink("https://example.com/T0/B0/xyzzy?t=xyzzy", secret=SECRET)
    chat = SlackSink("https://example.com/T0/B0/xyzzy")
    for text in (repr(made), made.name, repr(chat), chat.name):
        assert "xyzzy" not in text
        assert SECRET not in text
    assert made.name.startswith("webhook:example.com#")
    with pytest.raises(NotSent) as failed:
        sink(server, "/500").send(alert())
    assert "/500" not in str(failed.value)


def test_a_short_secret_is_refused():
    with pytest.raises(InvalidSetting, match="too short"):
        WebhookSink("https://example.com/", secret="abc")
    with pytest.raises(InvalidSetting, match="timeout is 0"):
        WebhookSink("https://example.com/", timeout=0)
