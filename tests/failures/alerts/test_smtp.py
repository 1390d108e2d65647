"""Alerts by e-mail: over TLS, with headers that nothing can break out of, and within a time."""

from __future__ import annotations

import time
from base64 import b64encode
from email import message_from_string, policy
from typing import Any

import pytest

from onward import InvalidSetting, SmtpSink
from onward.sinks.guard import NotSent
from tests.failures.alerts.samples import alert
from tests.failures.alerts.servers import MailServer, mail_server

LOGIN = b"\0u\0p"
OPS = ["ops@example.com", "oncall@example.com"]
PLAIN: dict[str, Any] = {"sender": "onward@example.com", "to": OPS, "security": "none"}


def sink(server: MailServer, **options) -> SmtpSink:
    return SmtpSink(**(PLAIN | {"host": "localhost", "port": server.port} | options))


def test_a_mail_has_the_alert_and_goes_to_all():
    with mail_server() as server:
        sink(server).send(alert(hint="renew the scopes"))
    [mail] = server.mails
    assert mail.to == [f"TO:<{one}>" for one in OPS]
    assert mail.sender.startswith("FROM:<onward@example.com>")
    message = message_from_string(mail.text, policy=policy.default)
    assert message["Subject"] == "[onward] integration_error: crm.sync_contact died: unrecoverable"
    assert message["Message-ID"] == "<d1f3a2b4c5d6.1@example.com>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert "Hint: renew the scopes" in message.get_content()


def test_a_text_with_line_breaks_makes_no_headers():
    with mail_server() as server:
        sink(server).send(alert(title="x\r\nBcc: all@example.com\r\n\r\nhello", id="a\r\nb"))
    message = message_from_string(server.mails[0].text, policy=policy.default)
    assert message["Bcc"] is None
    assert message["Subject"] == "[onward] integration_error: x Bcc: all@example.com hello"
    assert len(server.mails[0].to) == 2


def test_a_password_is_sent_over_tls(certificate):
    with mail_server(certificate) as server:
        sink(server, security="starttls", username="u", password="p", cafile=certificate.authority).send(
            alert()
        )
    [mail] = server.mails
    assert mail.secure
    assert mail.login == f"PLAIN {b64encode(LOGIN).decode()}"


def test_without_tls_nothing_is_said_where_tls_is_asked_for(certificate):
    with mail_server() as plain, pytest.raises(NotSent, match="no TLS"):
        sink(plain, security="starttls").send(alert())
    with mail_server(certificate) as server, pytest.raises(NotSent, match="not trusted"):
        sink(server, security="starttls").send(alert())
    assert plain.mails == server.mails == []


@pytest.mark.parametrize(
    ("manner", "told"), [("refusing", "all recipients are refused"), ("cutting", "cut off")]
)
def test_what_is_not_taken_is_an_error(manner, told):
    with mail_server(manner=manner) as server, pytest.raises(NotSent, match=told):
        sink(server).send(alert())


@pytest.mark.parametrize("manner", ["hanging", "dribbling"])
@pytest.mark.parametrize("security", ["none", "tls"])
def test_a_server_that_hangs_is_left_in_time(manner, security):
    began = time.monotonic()
    with mail_server(manner=manner) as server, pytest.raises(NotSent):
        sink(server, security=security, timeout=0.3).send(alert())
    assert time.monotonic() - began < 3


def test_what_was_taken_is_taken_however_the_server_says_good_bye():
    began = time.monotonic()
    with mail_server(manner="lingering") as server:
        sink(server, timeout=0.5).send(alert())
    assert len(server.mails) == 1
    assert time.monotonic() - began < 3


def test_no_line_is_longer_than_mail_servers_take():
    long = "unserved_queue:" + "%F0%9F%98%80" * 200
    with mail_server() as server:
        sink(server).send(alert(id=f"{long}.1", fingerprint=long, title="ü" * 500))
    assert max(map(len, server.mails[0].text.splitlines())) < 998


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sender": "ops"}, "sender is 'ops'"),
        ({"to": ["a@b\r\nRCPT TO:<c@d>"]}, "to is 'a@b"),
        ({"to": []}, "no list of addresses"),
        ({"to": "ops@example.com"}, "no list of addresses"),
        ({"security": "maybe"}, "security is 'maybe'"),
        ({"username": "u", "password": "p"}, "only over TLS"),
        ({"host": "a b"}, "is no name"),
        ({"port": 0}, "port is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_sink_is_defined(options, told):
    with pytest.raises(InvalidSetting, match=told):
        SmtpSink(**(PLAIN | {"host": "mail.example.com"} | options))


def test_neither_the_password_nor_the_user_is_shown():
    options = {**PLAIN, "security": "tls", "username": "ulla", "password": "xyzzy"}
    assert "xyzzy" not in repr(SmtpSink("mail.example.com", **options))
