"""Job types that fail in a child process, in an application with policies of its own."""

from __future__ import annotations

from onward import Onward, RateLimited, RuleBroken, Unrecoverable
from tests.failures.classification.classification_provider import fetch

__all__ = ["ERRORS", "app", "call", "fail"]

app = Onward("sqlite:///failing.db")


class CardDeclined(Exception):
    """Known by a rule of the application's own."""


class Fatal(Unrecoverable):
    """Known by a hint of the application's own."""


app.classify(CardDeclined, "unrecoverable", name="card", hint="ask for another card")
app.classify(LookupError, "skip", name="nobody")
app.hint(Fatal, "call them")

ERRORS: dict[str, Exception] = {
    "own rule": CardDeclined("no"),
    "own hint": Fatal("no"),
    "rule broken": RuleBroken("no", hint="the booking is over"),
    "group": ExceptionGroup("tasks", [Unrecoverable("no")]),
    "limited": RateLimited(after="1m"),
    "plain": ValueError("no"),
    "skip": KeyError("nobody"),
}


@app.job(executor="process")
def call(client: str, url: str) -> None:
    fetch(client, url)


@app.job(executor="process")
def fail(how: str) -> None:
    raise ERRORS[how]
