"""The check of the addresses to which alerts are sent: no private ones, unless the sink allows them.

A URL is checked when a sink is defined, its addresses at every send. Every address of a host is checked, and
the connection goes to one of those, so that a second answer of the name server is never used.
"""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import quote, urlsplit

from onward.core.inputs.plain_text import kind_of
from onward.errors import InvalidSetting

Address = IPv4Address | IPv6Address

# ipaddress does not refuse all of these: some embed an IPv4 address, or are relays to one.
_REFUSED = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "100.64.0.0/10", "0.0.0.0/8",
            "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
            "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
            "fec0::/10",
        ),
    )
)  # fmt: skip
# Operating systems accept these numbers as IPv4 addresses: 127.1, 0x7f000001, 2130706433.
_NUMERIC = re.compile(r"(?:0[xX][0-9a-fA-F]*|\d+)(?:\.(?:0[xX][0-9a-fA-F]*|\d+)){0,3}\.?")
_PLAIN = "".join(map(chr, range(0x21, 0x7F)))
_UNPRINTABLE = re.compile(r"[\s\x00-\x20\x7f]")


class NotSent(Exception):
    """An alert was not sent; the message has the reason, and nothing from the body of an answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL; only the host may be shown, since the rest may be a secret."""

    secure: bool
    host: str
    port: int
    path: str
    private: bool

    @property
    def shown(self) -> str:
        """The part of the URL that may be shown."""
        return self.host


def target_of(url: str, *, allow_http: bool = False, allow_private: bool = False) -> Target:
    """Return the parts of a URL; raise InvalidSetting, without showing it, if no alert may be sent there."""
    if not isinstance(url, str):
        raise InvalidSetting(f"the URL of a sink is {kind_of(url)}; give https://…")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidSetting("the URL of a sink is no URL; give https://…") from None
    if _UNPRINTABLE.search(url) or "\\" in url:
        raise InvalidSetting("the URL of a sink has a blank or a backslash in it; give https://…")
    schemes = ("https", "http") if allow_http else ("https",)
    if parts.scheme not in schemes:
        advice = "" if allow_http else ", or allow_http=True for http"
        raise InvalidSetting(f"the URL of a sink begins with {parts.scheme!r:.20}; give https://…{advice}")
    if not host:
        raise InvalidSetting("the URL of a sink names no host; give https://host/…")
    if parts.username is not None or parts.password is not None:
        raise InvalidSetting("the URL of a sink has a name or a password in it; take it out")
    literal = _literal(host)
    if literal is not None and not allow_private and not is_public(literal):
        raise InvalidSetting(_refusal(host))
    secure = parts.scheme == "https"
    # Quoted as browsers do, because an HTTP request line must be ASCII.
    path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_PLAIN)
    return Target(secure, host, port or (443 if secure else 80), path, allow_private)


def addresses_of(target: Target, seconds: float) -> list[str]:
    """Return the addresses of a host, resolved once; raise NotSent unless alerts may go to all of them."""
    found = _resolved(target.host, target.port, seconds)
    if not target.private:
        for address in found:
            if not is_public(ip_address(address)):
                raise NotSent(_refusal(target.host))
    return found


def is_public(address: Address) -> bool:
    """Whether an address is public: neither of this machine, nor of a private network, nor reserved."""
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _literal(host: str) -> Address | None:
    # The resolver normalises names the same way: ①②⑦.0.0.1 and 127。0。0。1 are addresses, too.
    host = normalize("NFKC", host).replace("\u3002", ".").replace("\u00ad", "")
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if _NUMERIC.fullmatch(host):
        try:
            return IPv4Address(socket.inet_aton(host.rstrip(".")))
        except OSError:
            return None
    return None


def _resolved(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a host; a thread bounds the time, because getaddrinfo() can't be cancelled."""
    answer: list[list[str] | Exception] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.append(list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found)))
        except (OSError, UnicodeError) as error:
            answer.append(error)

    thread = threading.Thread(target=ask, name="onward alert: name", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise NotSent(f"the name server did not answer for {host} in time")
    [found] = answer
    if isinstance(found, Exception) or not found:
        raise NotSent(f"there is no host {host}")
    return found


def _refusal(host: str) -> str:
    return (
        f"{host} is an address of this machine, of a private network, or reserved; alerts are not sent "
        "there unless the sink has allow_private=True"
    )
