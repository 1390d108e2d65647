"""The options of a signal besides its event, its key and its payload."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict, TypeVar

from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.inputs.duration import Duration
from onward.core.jobs.actor import Actor
from onward.errors import InvalidJob
from onward.handlers.enqueue_options import check_names

AnyClient = TypeVar("AnyClient", Client, AsyncClient)


class SignalOptions(TypedDict, total=False):
    """The options of `app.signal()`; None is the same as leaving an option out."""

    org_id: str | None
    keep: Duration
    actor: str | tuple[str, str] | None
    tx: object


class Said(NamedTuple):
    """The options of a signal as a client takes them, its actor, and the transaction to store it in."""

    named: dict[str, Any]
    actor: Actor | None
    tx: object

    def bound(self, client: AnyClient) -> AnyClient:
        """Return the client in the transaction of the signal, acting for the actor that sends it."""
        client = client if self.tx is None else client.within(self.tx)
        return client if self.actor is None else client.acting_as(self.actor)


def read_signal(options: SignalOptions) -> Said:
    """Read the options of one signal; raises InvalidSetting for an unknown option."""
    check_names("signal()", options, SignalOptions.__annotations__)
    named: dict[str, Any] = {
        name: options[name] for name in ("org_id", "keep") if options.get(name) is not None
    }
    actor = options.get("actor")
    return Said(named, None if actor is None else Actor.of(actor, InvalidJob), options.get("tx"))
