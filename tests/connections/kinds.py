"""Every kind of connection that a caller may hand in: how it is opened, begun, committed and rolled back."""

from __future__ import annotations

from tests.connections.caller import PREFIX, Address, Caller, Kind, open_caller
from tests.connections.driver_kinds import DRIVER_KINDS
from tests.connections.framework_kinds import FRAMEWORK_KINDS, django_settings
from tests.connections.proxies import Forwarding, Holding, Masked

__all__ = [
    "KINDS",
    "PREFIX",
    "Address",
    "Caller",
    "Forwarding",
    "Holding",
    "Kind",
    "Masked",
    "django_settings",
    "open_caller",
]

KINDS: list[Kind] = [*DRIVER_KINDS, *FRAMEWORK_KINDS]
