"""The options of a signal besides its event, its key and its payload."""

from __future__ import annotations

from typing import NamedTuple, TypedDict, TypeVar

from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.inputs.duration import Duration
from onward.core.jobs.actor import Actor
from onward.core.work.wait import KEEP
from onward.errors import InvalidJob
from onward.handlers.enqueue_options import check_names

AnyClient = TypeVar("AnyClient", Client, AsyncClient)


class SignalOptions(TypedDict, total=False):
    """The options of `app.signal()`; None is the same as leaving an option out."""

    org_id: str | None
    keep: Duration
    actor: str | tuple[str, str] | None
    tx: object


class SignalCall(NamedTuple):
    """The options of a signal: its org, how long it is kept, its actor, and its transaction."""

    org_id: str | None
    keep: Duration
    actor: Actor | None
    tx: object

    def bound(self, client: AnyClient) -> AnyClient:
        """Return the client in the transaction of the signal, acting for the actor that sends it."""
        client = client if self.tx is None else client.within(self.tx)
        client = client if self.actor is None else client.acting_as(self.actor)
        # A client of one org can't send for another; a client of all orgs stays one, to wake jobs at once.
        return client if None in {self.org_id, client.org_id} else client.for_org(str(self.org_id))


def read_signal(options: SignalOptions) -> SignalCall:
    """Read the options of one signal; raises InvalidSetting for an unknown option."""
    check_names("signal()", options, SignalOptions.__annotations__)
    keep, actor = options.get("keep"), options.get("actor")
    return SignalCall(
        options.get("org_id"),
        KEEP if keep is None else keep,
        None if actor is None else Actor.of(actor, InvalidJob),
        options.get("tx"),
    )
