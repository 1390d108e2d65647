"""What may be said of a signal besides its event, its key and what it brings."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

from onward.core.inputs.duration import Duration
from onward.handlers.enqueue_options import check_names, read_actor

__all__ = ["SignalOptions", "read_signal"]


class SignalOptions(TypedDict, total=False):
    """What `app.signal()` takes; None is the same as leaving it out."""

    org_id: str | None
    keep: Duration
    actor: str | tuple[str, str] | None
    tx: object


class Said(NamedTuple):
    """The options of a signal as a client takes them, and the transaction to store it in."""

    named: dict[str, Any]
    tx: object


def read_signal(options: SignalOptions) -> Said:
    """Read the options of one signal; a name that does not exist is refused."""
    check_names("signal()", options, SignalOptions.__annotations__)
    named: dict[str, Any] = {
        name: options[name] for name in ("org_id", "keep") if options.get(name) is not None
    }
    named["actor_type"], named["actor_id"] = read_actor(options.get("actor"))
    return Said(named, options.get("tx"))
