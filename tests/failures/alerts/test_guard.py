"""No alert goes to an address of this machine or of its network, however it is written."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from onward import InvalidSetting, SlackSink, WebhookSink
from onward.sinks.guard import NotSent, is_public, target_of
from tests.failures.alerts.samples import alert
from tests.failures.alerts.servers import web_server

REFUSED = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::7f00:1",
    "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1", "100::1",
    "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip

ODD_LOOPBACKS = [
    "①②⑦.⓪.⓪.①",
    "\uff11\uff12\uff17.0.0.1",
    "127。0。0。1",
    "127.0.0.1\u00ad",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "127.1",
    "0x7f.1",
    "127.0.0.1.",
    "[::1]",
    "[::ffff:7f00:1]",
]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_of_this_network_or_a_reserved_one_is_refused(address):
    # A21
    assert not is_public(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidSetting, match="allow_private=True"):
        WebhookSink(f"https://{host}/hook")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"]
)
def test_an_address_of_the_open_network_is_not(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize("host", ODD_LOOPBACKS)
def test_a_loopback_address_is_known_in_any_writing(host):
    with pytest.raises(InvalidSetting, match="allow_private=True"):
        SlackSink(f"https://{host}/")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://example.com/", "allow_http=True"),
        ("ftp://example.com/", "begins with 'ftp'"),
        ("file:///etc/passwd", "begins with 'file'"),
        ("https:///path", "names no host"),
        ("https://user:pass@example.com/", "a name or a password"),
        ("https://user@example.com/", "a name or a password"),
        ("https://exa mple.com/", "a blank"),
        ("https://example.com/\r\nHost: evil", "a blank"),
        ("https://example.com\\@evil.example/", "backslash"),
        ("https://example.com:99999/", "no URL"),
        ("https://[::1/", "no URL"),
        ("", "begins with ''"),
        (7, "is an int"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_when_the_sink_is_defined(url, told):
    with pytest.raises(InvalidSetting, match=told) as refused:
        WebhookSink(url)
    assert "pass@" not in str(refused.value)


def test_a_name_that_leads_to_this_machine_is_refused_at_every_send():
    sink = WebhookSink("https://localhost/hook")
    with pytest.raises(NotSent, match="localhost is an address of this machine"):
        sink.send(alert())


def resolving(monkeypatch, *answers: list[str]) -> list[str]:
    """Have the name server give these addresses, in turn; gives the names that were asked for."""
    asked: list[str] = []

    def getaddrinfo(host, port, *_, **__):
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_one_bad_address_among_good_ones_is_enough(monkeypatch):
    resolving(monkeypatch, ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(NotSent, match="private network"):
        WebhookSink("https://example.com/").send(alert())


def test_a_name_that_is_answered_otherwise_the_second_time_is_asked_only_once(monkeypatch):
    # Rebinding: what is connected to is what was checked.
    with web_server() as server:
        resolved = socket.getaddrinfo
        asked = resolving(monkeypatch, ["127.0.0.1"], ["10.255.255.1"])

        def pinned(host, *arguments, **options):
            # An address is no name: nobody is asked.
            if host == "rebound.example":
                return socket_of_names(host, *arguments, **options)
            return resolved(host, *arguments, **options)

        socket_of_names = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", pinned)
        url = server.url(host="rebound.example")
        WebhookSink(url, allow_http=True, allow_private=True, timeout=2).send(alert())
        assert asked == ["rebound.example"]
        assert server.received[0].headers["Host"] == f"rebound.example:{server.port}"


def test_a_sink_that_was_good_is_refused_once_its_name_leads_inside(monkeypatch):
    resolving(monkeypatch, ["169.254.169.254"])
    with pytest.raises(NotSent, match=r"example\.com is an address of this machine"):
        WebhookSink("https://example.com/").send(alert())


def test_a_path_is_sent_in_ascii():
    assert target_of("https://example.com/köln?q=é&x=%20").path == "/k%C3%B6ln?q=%C3%A9&x=%20"
