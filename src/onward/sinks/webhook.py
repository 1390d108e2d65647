"""A sink that sends signed HTTP POSTs; a receiver can verify sender and time, and recognise repetitions."""

from __future__ import annotations

import hashlib
import hmac
import time

import msgspec

from onward.core.failures.alert import Alert
from onward.core.inputs.duration import Duration, duration, written
from onward.errors import InvalidSetting
from onward.sinks.guard import target_of
from onward.sinks.posting import post

_LEAST_SECRET = 16
# The most digits of a Unix time; checked before conversion, because any client may send the header.
_MOST_DIGITS = 15
_LONGEST = 60.0


class WebhookSink:
    """Posts each alert as JSON, signed with a secret that the receiver also has."""

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        name: str | None = None,
        timeout: Duration = 10,
        allow_http: bool = False,
        allow_private: bool = False,
        cafile: str | None = None,
    ) -> None:
        self._target = target_of(url, allow_http=allow_http, allow_private=allow_private)
        if secret is not None and (not isinstance(secret, str) or len(secret) < _LEAST_SECRET):
            raise InvalidSetting(
                f"the secret of a webhook is too short; give {_LEAST_SECRET} characters or more"
            )
        self._secret = secret
        self._seconds = seconds_of(timeout)
        self._cafile = cafile
        self.name = name or named("webhook", self._target.shown, url)

    def __repr__(self) -> str:
        return f"WebhookSink(name={self.name!r})"

    def send(self, alert: Alert) -> None:
        """Post the alert once; raise NotSent if it was not accepted."""
        body = msgspec.json.encode(alert)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "onward",
            "Onward-Event-Id": alert.id,
        }
        if self._secret is not None:
            headers["Onward-Signature"] = sign(self._secret, body, int(time.time()))
        post(self._target, body, headers, seconds=self._seconds, cafile=self._cafile)


def named(kind: str, host: str, url: str) -> str:
    """Return a sink's name: its host, and six digits of a hash of the URL, which may hold a secret."""
    return f"{kind}:{host}#{hashlib.sha256(url.encode()).hexdigest()[:6]}"


def seconds_of(timeout: Duration) -> float:
    """Return the time limit of a sink in seconds; raise InvalidSetting if it is out of range."""
    seconds = duration("timeout", timeout).total_seconds()
    if not 0 < seconds <= _LONGEST:
        raise InvalidSetting(
            f"timeout is {written(timeout)}; give more than nothing, and at most {_LONGEST:g} s"
        )
    return seconds


def sign(secret: str, body: bytes, at: int) -> str:
    """Return the header `Onward-Signature` for a body that is sent at a Unix time."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def verify_signature(
    secret: str, header: str, body: bytes, *, tolerance: Duration = "5m", now: float | None = None
) -> bool:
    """Whether a holder of the secret signed a webhook's body, less than `tolerance` before or after now."""
    at, _, signature = header.partition(",v1=")
    number = at.removeprefix("t=")
    if not (number.isascii() and number.isdecimal() and signature.isascii() and len(number) <= _MOST_DIGITS):
        return False
    fresh = (
        abs((time.time() if now is None else now) - int(number))
        <= duration("tolerance", tolerance).total_seconds()
    )
    expected = sign(secret, body, int(number)).partition(",v1=")[2]
    return hmac.compare_digest(expected, signature) and fresh
