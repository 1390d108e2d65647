"""Functions whose annotations are text, one of them a name that exists for type checkers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from onward import Context

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Address:
    city: str


def ship(order: UUID, ctx: Context, to: Address | None = None) -> Decimal:
    raise NotImplementedError


def price(amount: Decimal) -> None:
    raise NotImplementedError
