"""Proxies around a connection, as tracers and pools make them."""

from __future__ import annotations

from typing import Any

__all__ = ["Forwarding", "Holding", "Masked"]


class Holding:
    """Keeps the connection where a name says so, and forwards what it has not itself."""

    def __init__(self, inner: Any) -> None:
        self._connection = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Forwarding:
    """Pretends to be of the class of what it wraps, as `wrapt.ObjectProxy` does."""

    def __init__(self, inner: Any) -> None:
        self.__wrapped__ = inner

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__wrapped__.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)


class Masked:
    """Pretends as well, but tells nobody what it wraps."""

    def __init__(self, inner: Any) -> None:
        self.__inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__inner.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__inner, name)
