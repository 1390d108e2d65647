"""A handler that is given as `"module:function"`, and imported when it first runs."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from onward.errors import InvalidSetting
from onward.handlers.signature import Signature

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)


class LazyFunction:
    """The function at `module:function`; its module is imported by the first call of `find`."""

    def __init__(self, reference: str) -> None:
        if not _REFERENCE.fullmatch(reference):
            raise InvalidSetting(f"{reference!r:.80} names no function; give 'module:function'")
        self.reference = reference
        self.module, _, self.path = reference.partition(":")
        self.name = self.path.rpartition(".")[2]

    def imported(self) -> Callable[..., Any] | None:
        """Return the function if its module was imported; raise InvalidSetting if the module lacks it."""
        module = sys.modules.get(self.module)
        # A module that is being imported may define the function later.
        if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
            return None
        return self._in(module)

    def find(self) -> Callable[..., Any]:
        """Import the module and return the function; raise InvalidSetting if one of them is missing."""
        try:
            module = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{self.module}.".startswith(f"{error.name}."):
                raise
            raise InvalidSetting(
                f"{self.reference!r}: there is no module {error.name!r}; check its name, and that this "
                "process can import it"
            ) from None
        return self._in(module)

    def stand_in(self) -> Callable[..., Any]:
        """Return a function of the same name, with any arguments, that imports the real one and calls it."""

        def call(**arguments: Any) -> Any:
            return self.find()(**arguments)

        call.__name__, call.__qualname__, call.__module__ = self.name, self.path, self.module
        return call

    def _in(self, module: ModuleType) -> Callable[..., Any]:
        try:
            found: Any = module
            for part in self.path.split("."):
                found = getattr(found, part)
        except AttributeError:
            raise InvalidSetting(
                f"{self.reference!r}: module {self.module!r} has no {self.path!r}; check the name"
            ) from None
        if not inspect.isfunction(found):
            raise InvalidSetting(
                f"{self.reference!r} is {found!r:.80}, and no plain function; name a def or an async def "
                "without @app.job"
            )
        return cast("Callable[..., Any]", found)


class LazySignature(Signature):
    """The signature of a lazy function: it accepts any named arguments until the module is imported."""

    def __init__(self, lazy: LazyFunction) -> None:
        super().__init__(lazy.stand_in())
        self._lazy = lazy
        self._real: Signature | None = None
        self._unchecked = self.arguments
        self.arguments = self._arguments
        # The real one is not known, so no other declaration of the job type differs from it.
        self.fingerprint = None

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call's arguments, checked if the module was imported, and return them as JSON values."""
        real = self._known()
        return super().payload(args, kwargs) if real is None else real.payload(args, kwargs)

    def effective(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a payload as it takes effect; the defaults are known once the module was imported."""
        real = self._known()
        return super().effective(payload) if real is None else real.effective(payload)

    def _arguments(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        real = self._known()
        return self._unchecked(payload) if real is None else real.arguments(payload)

    def _known(self) -> Signature | None:
        if self._real is None and (function := self._lazy.imported()) is not None:
            self._real = Signature(function)
        return self._real
