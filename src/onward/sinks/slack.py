"""Alerts to a chat, by an incoming webhook of Slack's shape; Mattermost and others take the same."""

from __future__ import annotations

import msgspec

from onward.core.failures.alert import Alert, text_of
from onward.core.inputs.duration import Duration
from onward.sinks.guard import target_of
from onward.sinks.posting import post
from onward.sinks.webhook import named, seconds_of


class SlackSink:
    """Posts each alert as a text in which nothing is a link of its own making or a mention."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        timeout: Duration = 10,
        allow_http: bool = False,
        allow_private: bool = False,
        cafile: str | None = None,
    ) -> None:
        self._target = target_of(url, allow_http=allow_http, allow_private=allow_private)
        self._seconds = seconds_of(timeout)
        self._cafile = cafile
        self.name = name or named("slack", self._target.shown, url)

    def __repr__(self) -> str:
        return f"SlackSink(name={self.name!r})"

    def send(self, alert: Alert) -> None:
        """Post it once; raises if that was not taken."""
        text = {"text": escaped(text_of(alert)), "mrkdwn": False, "link_names": False, "parse": "none"}
        headers = {"Content-Type": "application/json", "User-Agent": "onward"}
        post(self._target, msgspec.json.encode(text), headers, seconds=self._seconds, cafile=self._cafile)


def escaped(text: str) -> str:
    """Give a text in which Slack finds neither links nor mentions.

    Others take a bare @all for one, and `![](…)` for an image, which whoever reads would fetch.
    """
    for sign, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("@", "@\u200b"),
        ("](", "]\u200b("),
        ("][", "]\u200b["),
    ):
        text = text.replace(sign, safe)
    return text
