"""A sink that posts to a chat, by an incoming webhook of Slack; Mattermost and others accept the same."""

from __future__ import annotations

import msgspec

from onward.core.failures.alert import Alert, text_of
from onward.core.inputs.duration import Duration
from onward.sinks.guard import target_of
from onward.sinks.posting import post
from onward.sinks.webhook import named, seconds_of


class SlackSink:
    """Posts each alert as a text whose content can create neither links nor mentions."""

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
        """Post the alert once; raise NotSent if it was not accepted."""
        text = {"text": escaped(text_of(alert)), "mrkdwn": False, "link_names": False, "parse": "none"}
        headers = {"Content-Type": "application/json", "User-Agent": "onward"}
        post(self._target, msgspec.json.encode(text), headers, seconds=self._seconds, cafile=self._cafile)


def escaped(text: str) -> str:
    """Return a text in which Slack finds neither links nor mentions.

    Other chats treat a bare @all as a mention, and `![](…)` as an image, which each reader would fetch.
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
