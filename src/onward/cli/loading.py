"""Find the app that a command is about: `module:attribute`, or what the folder and the environment say."""

from __future__ import annotations

import os
import sys
import tomllib
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from onward.cli.lines import clean
from onward.errors import InvalidSetting

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["find_app", "load_app"]


def load_app(reference: str, url: str | None = None) -> Onward:
    """Import the app that `module:attribute` names, or the only one of `module`; looks here first.

    A URL given here or in ONWARD_URL replaces the app's own, also for processes that are started from here.
    """
    app = _named(reference)
    if url is not None:
        os.environ["ONWARD_URL"] = url
    if chosen := os.environ.get("ONWARD_URL"):
        app.clients.url = chosen
    return app


def _named(reference: str) -> Onward:
    from onward.app import Onward

    name, _, attribute = reference.partition(":")
    if name.endswith(".py") or "/" in name or not all(part.isidentifier() for part in name.split(".")):
        advice = name.removesuffix(".py").strip("./").replace("/", ".") or "app"
        raise InvalidSetting(f'"{reference}" names no module; give module:attribute, such as {advice}:app')
    module = _import(name)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, Onward)}
    if not attribute:
        return _only(name, apps)
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, [*apps, *vars(module)], 1) or list(apps)[:1]
        raise InvalidSetting(f'module "{name}" has no attribute "{attribute}".{_meant(near)}')
    found = getattr(module, attribute)
    if not isinstance(found, Onward):
        kind = type(found).__name__
        raise InvalidSetting(
            f'"{reference}" is a {kind}, not an Onward.{_meant([f"{name}:{key}" for key in apps])}'
        )
    return found


def find_app(reference: str | None, url: str | None = None) -> Onward | None:
    """Load the app that was named, or that ONWARD_APP or a file of settings names, or that of ./app.py."""
    reference = reference or os.environ.get("ONWARD_APP") or _setting()
    if reference is None and _has_an_app(Path.cwd()):
        reference = "app"
    return load_app(reference, url) if reference else None


def _setting() -> str | None:
    """Read `app` from onward.toml, or from `[tool.onward]` of pyproject.toml."""
    for file, path in (("onward.toml", ()), ("pyproject.toml", ("tool", "onward"))):
        try:
            table: Any = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise InvalidSetting(f"can't read {file}: {error}") from None
        for key in path:
            table = table.get(key, {})
        app = table.get("app")
        if app is not None and (not isinstance(app, str) or not app):
            raise InvalidSetting(f'app in {file} is {app!r:.80}; give module:attribute, such as "app:app"')
        if app:
            return app
    return None


def _has_an_app(folder: Path) -> bool:
    """Tell whether `app` here is ours to import: a script of that name may do anything when imported."""
    file = next(
        (path for path in (folder / "app.py", folder / "app" / "__init__.py") if path.is_file()), None
    )
    return file is not None and "Onward(" in file.read_text(encoding="utf-8", errors="replace")


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from None
        modules = [path.stem for path in Path.cwd().glob("*.py")]
        near = get_close_matches(name, modules, 1)
        raise InvalidSetting(f'there is no module "{name}" in {here} or installed.{_meant(near)}') from None
    except Exception as error:  # noqa: BLE001 - whatever the app's own code raises
        raise _broken(name, error) from None


def _broken(name: str, error: Exception) -> InvalidSetting:
    """Show where the app's own code failed, without the frames that led there."""
    trace = error.__traceback__
    inner = trace
    while inner is not None and ("importlib" in inner.tb_frame.f_code.co_filename or inner is trace):
        inner = inner.tb_next
    shown = traceback.format_exception(type(error), error, inner)
    click.echo("".join(shown).rstrip(), err=True)
    return InvalidSetting(f'importing "{name}" failed: {type(error).__name__}: {clean(str(error), 200)}')


def _only(name: str, apps: dict[str, Onward]) -> Onward:
    different: dict[int, str] = {}
    for key, app in apps.items():
        different.setdefault(id(app), key)
    if len(different) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise InvalidSetting(f'module "{name}" has no Onward; make one there: app = Onward()')
    choices = ", ".join(f"{name}:{key}" for key in different.values())
    raise InvalidSetting(f'module "{name}" has several Onwards; give one of {choices}')


def _meant(near: list[str]) -> str:
    return f' Did you mean "{near[0]}"?' if near else ""
