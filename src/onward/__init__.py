"""Onward: a durable job queue that lives in the database you already have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__: list[str]

if TYPE_CHECKING:
    from onward.public import *  # noqa: F403
    from onward.public import __version__ as __version__
else:

    def __getattr__(name: str) -> Any:
        """Return a name of `onward.public`, which is imported on first use.

        The command line must not wait for the import of drivers and of the event loop.
        """
        # `from onward import public` would call this function for `public` first.
        public = import_module("onward.public")
        names = globals()
        names.update({known: getattr(public, known) for known in (*public.__all__, "__all__", "__version__")})
        if name in names:
            return names[name]
        raise AttributeError(f"module 'onward' has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Return the names that an application can import."""
        return [*import_module("onward.public").__all__, "__version__"]
