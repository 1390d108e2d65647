"""Which addresses an alert may be sent to: not those of this machine and its network, unless it is said so.

A URL is checked when a sink is defined, its addresses at every send. Every address of a host is checked, and
the connection goes to one of those, so that no second answer of the name server is ever believed.
"""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import quote, urlsplit

from onward.errors import InvalidSetting

Address = IPv4Address | IPv6Address

# Besides what ipaddress knows by itself: forms that carry an IPv4 address, and relays to such.
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
# Numbers that systems take for IPv4 addresses: 127.1, 0x7f000001, 2130706433.
_NUMERIC = re.compile(r"(?:0[xX][0-9a-fA-F]*|\d+)(?:\.(?:0[xX][0-9a-fA-F]*|\d+)){0,3}\.?")
_PLAIN = "".join(map(chr, range(0x21, 0x7F)))
_UNPRINTABLE = re.compile(r"[\s\x00-\x20\x7f]")


class NotSent(Exception):
    """An alert was not sent; says why, and nothing of what was answered."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL, of which only the host may be shown: the rest may be a secret."""

    secure: bool
    host: str
    port: int
    path: str
    private: bool

    @property
    def shown(self) -> str:
        """Name the place without what may be secret."""
        return self.host


def target_of(url: str, *, allow_http: bool = False, allow_private: bool = False) -> Target:
    """Take a URL apart; refuse what nobody should send to, without showing it."""
    if not isinstance(url, str):
        raise InvalidSetting(f"the URL of a sink is a {type(url).__name__}; give https://…")
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
    # As browsers do: HTTP takes nothing but ASCII there.
    path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_PLAIN)
    return Target(secure, host, port or (443 if secure else 80), path, allow_private)


def addresses_of(target: Target, seconds: float) -> list[str]:
    """Resolve a host once; every address must be one that may be sent to."""
    found = _resolved(target.host, target.port, seconds)
    if not target.private:
        for address in found:
            if not is_public(ip_address(address)):
                raise NotSent(_refusal(target.host))
    return found


def is_public(address: Address) -> bool:
    """Tell whether an address is somebody else's, in the open network."""
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    )


def _literal(host: str) -> Address | None:
    # As name servers are asked: ①②⑦.0.0.1 and 127。0。0。1 are numbers, too.
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
    """Ask the name server, for a bounded time: the call itself can't be told to stop."""
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
