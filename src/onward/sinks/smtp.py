"""A sink that sends e-mail, through the application's mail server."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from hashlib import sha256
from typing import Any, Literal, get_args

from onward.core.failures.alert import Alert, heading, text_of
from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration
from onward.core.inputs.plain_text import one_line
from onward.errors import InvalidSetting
from onward.sinks.guard import NotSent
from onward.sinks.posting import cut_off_after
from onward.sinks.webhook import seconds_of

Security = Literal["starttls", "tls", "none"]
Cut = Callable[[socket.socket], object]

_ADDRESS = re.compile(r"[^\s@<>,;:\"\\\x00-\x1f\x7f]+@[^\s@<>,;:\"\\\x00-\x1f\x7f]+")
_LONGEST_SUBJECT = 150
_LONGEST_IDENTITY = 200
_HIGHEST_PORT = 65_535
_WORDS: dict[type[Exception], str] = {
    smtplib.SMTPAuthenticationError: "the user name or the password is refused",
    smtplib.SMTPRecipientsRefused: "all recipients are refused",
    smtplib.SMTPNotSupportedError: "it has no TLS, or none of the ways to log in",
    smtplib.SMTPServerDisconnected: "no answer in time, or cut off",
    ssl.SSLCertVerificationError: "its certificate is not trusted",
    TimeoutError: "no answer in time",
}
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


class SmtpSink:
    """Sends each alert to its recipients, by default over TLS; a password is only ever sent over TLS."""

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        to: Sequence[str],
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        security: Security = "starttls",
        timeout: Duration = 10,
        cafile: str | None = None,
        name: str | None = None,
    ) -> None:
        if security not in get_args(Security):
            raise InvalidSetting(f"security is {security!r:.80}; give 'starttls', 'tls' or 'none'")
        if not isinstance(host, str) or not host or re.search(r"[\s/@]", host):
            raise InvalidSetting("the host of a mail server is no name; give one such as 'mail.example.com'")
        if security == "none" and (username is not None or password is not None):
            raise InvalidSetting("a password is sent only over TLS; give security='starttls' or 'tls'")
        self._sender = _address("sender", sender)
        if isinstance(to, str) or not to:
            raise InvalidSetting("to is no list of addresses; give one such as ['ops@example.com']")
        self._to = [_address("to", one) for one in to]
        self._host = host
        self._port = whole_number("port", _PORTS[security] if port is None else port, 1, _HIGHEST_PORT)
        self._login = (username, password) if username is not None and password is not None else None
        self._security = security
        self._seconds = seconds_of(timeout)
        self._cafile = cafile
        self.name = name or f"smtp:{host}:{','.join(sorted(self._to))}"[:200]

    def __repr__(self) -> str:
        return f"SmtpSink(name={self.name!r})"

    def send(self, alert: Alert) -> None:
        """Hand the alert to the mail server; raise NotSent if that fails or a recipient was refused."""
        until = time.monotonic() + self._seconds
        try:
            with ExitStack() as cuts:
                server = self._opened(lambda connected: cuts.enter_context(cut_off_after(until, connected)))
                cuts.callback(_take_leave, server)
                refused = self._handed_over(server, self._message(alert))
        except (OSError, smtplib.SMTPException) as error:
            late = time.monotonic() >= until
            reason = f"no answer within {self._seconds:g} s" if late else _described(error)
            raise NotSent(f"{self._host}: {reason}") from None
        if refused:
            raise NotSent(f"{self._host} refused {len(refused)} of {len(self._to)} recipients")

    def _opened(self, cut: Cut) -> smtplib.SMTP:
        if self._security == "tls":
            context = ssl.create_default_context(cafile=self._cafile)
            return _SecureServer(cut, self._host, self._port, timeout=self._seconds, context=context)
        return _Server(cut, self._host, self._port, timeout=self._seconds)

    def _handed_over(self, server: smtplib.SMTP, message: EmailMessage) -> dict[str, tuple[int, bytes]]:
        if self._security == "starttls":
            # Raises for a server without TLS, before anything is sent in the clear.
            server.starttls(context=ssl.create_default_context(cafile=self._cafile))
        if self._login is not None:
            server.login(*self._login)
        return server.send_message(message, self._sender, self._to)

    def _message(self, alert: Alert) -> EmailMessage:
        message = EmailMessage()
        # A line break in the subject would begin another header.
        message["Subject"] = one_line(f"[onward] {heading(alert)}", _LONGEST_SUBJECT)
        message["From"] = self._sender
        message["To"] = ", ".join(self._to)
        message["Date"] = format_datetime(localtime())
        # The id is the same for the same alert, so that mailboxes recognise a second copy.
        identity = re.sub(r"[^A-Za-z0-9._-]", "-", alert.id)
        if len(identity) > _LONGEST_IDENTITY:
            # Mail servers refuse a line of more than 998 characters.
            identity = sha256(alert.id.encode()).hexdigest()
        message["Message-ID"] = f"<{identity}@{self._sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text_of(alert))
        return message


class _Server(smtplib.SMTP):
    """Bounds the time from the first byte on: a server may send its greeting one byte at a time, too."""

    def __init__(self, cut: Cut, host: str, port: int, **options: Any) -> None:
        self._cut = cut
        super().__init__(host, port, **options)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connected: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        self._cut(connected)
        return connected


class _SecureServer(smtplib.SMTP_SSL, _Server):
    """Bounds the time of the TLS handshake, too, which needs the parents in this order."""

    def __init__(self, cut: Cut, host: str, port: int, **options: Any) -> None:
        self._cut = cut
        smtplib.SMTP_SSL.__init__(self, host, port, **options)


def _take_leave(server: smtplib.SMTP) -> None:
    """Send QUIT and close; errors are ignored, because the server has accepted the message."""
    with suppress(OSError, smtplib.SMTPException):
        server.quit()
    server.close()


def _address(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or not _ADDRESS.fullmatch(value):
        raise InvalidSetting(f"{name} is {value!r:.80}; give a plain address such as ops@example.com")
    return value


def _described(error: Exception) -> str:
    reason = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), None)
    if reason is not None:
        return reason
    if isinstance(error, smtplib.SMTPResponseException):
        return f"it answered with code {error.smtp_code}"
    return getattr(error, "strerror", None) or type(error).__name__
