"""An app whose jobs die and whose alerts go where the environment says."""

from __future__ import annotations

import os

from onward import Onward, Unrecoverable, WebhookSink

app = Onward(
    schema=os.environ["ALERTING_SCHEMA"],
    alerts=[WebhookSink(os.environ["ALERTING_HOOK"], allow_http=True, allow_private=True)],
)


@app.job
def die(why: str) -> None:
    """End at once, for good."""
    raise Unrecoverable(why)
