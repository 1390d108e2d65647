"""Find the app of a command: `module:attribute`, or what the environment and the current folder name.

The order is: the argument, ONWARD_APP, onward.toml, pyproject.toml, ./app.py.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
import traceback
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onward.core.inputs.plain_text import kind_of
from onward.core.inputs.plain_text import one_line as clean
from onward.errors import InvalidSetting

if TYPE_CHECKING:
    from onward.app import Onward

PLACE_KEY = "onward.place"
"""Where the context of a command keeps the app and the URL that it was given."""

_KEYS = ("app",)
_PARENTS_URL = "ONWARD_PARENT_URL"
# Matches a file that imports its app, such as `from shop.jobs import app`.
_SEEMS_AN_APP = re.compile(r"\bapp\b|onward", re.IGNORECASE)


class FoundApp(NamedTuple):
    """The app of a command and its full name, or the error that kept the named app from loading."""

    app: Onward | None = None
    name: str | None = None
    broken: InvalidSetting | None = None


def note_place(app: str | None, url: str | None) -> None:
    """Keep which app and database a command was given, for the advice of an error."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[PLACE_KEY] = (app, url)


def load_app(reference: str, url: str | None = None) -> Onward:
    """Import the app that `module:attribute` names, or the only app of `module`.

    The current folder is searched first. A URL given here, or to the parent of this process, replaces the
    app's own.
    """
    note_place(reference, url)
    try:
        return _placed(reference, url).app
    except InvalidSetting as error:
        show_trace(error)
        raise


def show_trace(error: InvalidSetting) -> None:
    """Print the traceback of the app's own code, if that code failed."""
    for note in getattr(error, "__notes__", ()):
        click.echo(note, err=True)


class _Named(NamedTuple):
    app: Onward
    name: str


def _placed(reference: str, url: str | None) -> _Named:
    url = url or os.environ.pop(_PARENTS_URL, None)
    named = _named(reference)
    if url is not None:
        named.app.clients.use(url)
    return named


def pass_on_url(url: str | None) -> None:
    """Let the worker processes that this command starts use a URL; other users can read command lines."""
    if url is not None:
        os.environ[_PARENTS_URL] = url


def check_module(reference: str) -> None:
    """Raise InvalidSetting if a module does not exist; do not import it: its errors can be fixed later."""
    name, _ = _split(reference)
    _look_here()
    parts = name.split(".")
    try:
        found = find_spec(parts[0])
        for end in range(2, len(parts) + 1):
            places = found and found.submodule_search_locations
            found = PathFinder.find_spec(".".join(parts[:end]), places) if places else None
    except ValueError:
        # The module is loaded but has no spec, as `__main__` has none.
        return
    if found is None:
        raise _missing(name)


def _split(reference: str) -> tuple[str, str]:
    name, _, attribute = reference.partition(":")
    if name.endswith(".py") or "/" in name or not all(part.isidentifier() for part in name.split(".")):
        advice = name.removesuffix(".py").strip("./").replace("/", ".") or "app"
        raise InvalidSetting(f'"{reference}" is not module:attribute; give one such as {advice}:app')
    return name, attribute


def _named(reference: str) -> _Named:
    from onward.app import Onward
    from onward.stores import chosen_name

    # A bad ONWARD_NAME is no error of the module that makes the app.
    chosen_name()

    name, attribute = _split(reference)
    module = _import(name)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, Onward)}
    if not attribute:
        key = _only(name, apps)
        return _Named(apps[key], f"{name}:{key}")
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, [*apps, *vars(module)], 1) or list(apps)[:1]
        raise InvalidSetting(f'module "{name}" has no attribute "{attribute}".{_meant(near)}')
    found = getattr(module, attribute)
    if not isinstance(found, Onward):
        raise InvalidSetting(
            f'"{reference}" is {kind_of(found)}, not an Onward.{_meant([f"{name}:{key}" for key in apps])}'
        )
    return _Named(found, reference)


def find_app(reference: str | None, url: str | None = None) -> Onward | None:
    """Load the app of the argument, of ONWARD_APP, of a settings file or of ./app.py; None without one."""
    chosen = _chosen_for(reference, url)
    found = load_app(chosen, url) if chosen else None
    note_place(reference, url)
    return found


def name_of_app(reference: str | None) -> str:
    """Return the name of the app for a command that needs one; raise InvalidSetting if none is named."""
    chosen = _chosen(reference)
    if chosen is None:
        raise InvalidSetting(
            "no app was named, and ./app.py makes none; name one as module:attribute, such as app:app, "
            "or set ONWARD_APP"
        )
    return chosen


def look_for_app(reference: str | None, url: str | None = None) -> FoundApp:
    """Find the app as `find_app` does, but return the error instead of raising it."""
    note_place(reference, url)
    chosen = reference
    try:
        chosen = _chosen_for(reference, url)
        return FoundApp(*_placed(chosen, url)) if chosen else FoundApp()
    except InvalidSetting as error:
        return FoundApp(name=chosen, broken=error)


def _chosen_for(reference: str | None, url: str | None) -> str | None:
    """Return the name of the app for a command that needs only a database; raise if both are unclear."""
    chosen = _chosen(reference)
    if chosen is None and not url and not os.environ.get("ONWARD_URL"):
        _refuse_to_guess(Path.cwd())
    return chosen


def _chosen(reference: str | None) -> str | None:
    reference = reference or os.environ.get("ONWARD_APP") or _setting()
    return "app" if reference is None and _has_an_app(Path.cwd()) else reference


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
            table = table.get(key, {}) if isinstance(table, dict) else table
        _check_keys(file, table)
        app = table.get("app")
        if app is not None and (not isinstance(app, str) or not app):
            raise InvalidSetting(f'app in {file} is {app!r:.80}; give module:attribute, such as "app:app"')
        if app:
            return app
    return None


def _check_keys(file: str, table: Any) -> None:
    """Raise if a settings file has a key that no command reads: its author believes that it works."""
    where = file if file == "onward.toml" else f"[tool.onward] in {file}"
    if not isinstance(table, dict):
        raise InvalidSetting(f'{where} is {table!r:.80}; give a table, such as app = "app:app"')
    for key in table:
        if key in {"url", "database"}:
            raise InvalidSetting(
                f"{where} has the key {key!r}, but it names no database: give the URL to Onward(), "
                "to ONWARD_URL or to --url"
            )
        if key not in _KEYS:
            meant = _meant(get_close_matches(key, _KEYS, 1)) or f" It has only {', '.join(_KEYS)}."
            raise InvalidSetting(f"{where} has the unknown key {key!r:.80}.{meant}")


def _has_an_app(folder: Path) -> bool:
    """Whether `app` in this folder creates an Onward app; importing an unrelated script could do anything."""
    file = _file_of_app(folder)
    return file is not None and "Onward(" in file.read_text(encoding="utf-8", errors="replace")


def _refuse_to_guess(folder: Path) -> None:
    """Raise if the folder seems to have an app: its database may differ from the default one."""
    file = _file_of_app(folder)
    if file is not None and _SEEMS_AN_APP.search(file.read_text(encoding="utf-8", errors="replace")):
        raise InvalidSetting(
            f"no Onward() is made in {file.relative_to(folder)}, and no database was named; name the app "
            "with --app, such as --app app:app, or the database with --url or ONWARD_URL"
        )


def _file_of_app(folder: Path) -> Path | None:
    return next(
        (path for path in (folder / "app.py", folder / "app" / "__init__.py") if path.is_file()), None
    )


def _look_here() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _missing(name: str) -> InvalidSetting:
    near = get_close_matches(name, [path.stem for path in Path.cwd().glob("*.py")], 1)
    return InvalidSetting(f'there is no module "{name}" in {Path.cwd()} or installed.{_meant(near)}')


def _import(name: str) -> ModuleType:
    _look_here()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise _missing(name) from None
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> InvalidSetting:
    """Return an error whose note is the traceback of the app's own code, without the import machinery."""
    trace = error.__traceback__
    inner = trace
    while inner is not None and ("importlib" in inner.tb_frame.f_code.co_filename or inner is trace):
        inner = inner.tb_next
    shown = traceback.format_exception(type(error), error, inner)
    broken = InvalidSetting(f'importing "{name}" failed: {type(error).__name__}: {clean(str(error), 200)}')
    broken.add_note("".join(shown).rstrip())
    return broken


def _only(name: str, apps: dict[str, Onward]) -> str:
    different: dict[int, str] = {}
    for key, app in apps.items():
        different.setdefault(id(app), key)
    if len(different) == 1:
        return next(iter(apps))
    if not apps:
        raise InvalidSetting(f'module "{name}" has no Onward; make one there: app = Onward()')
    choices = ", ".join(f"{name}:{key}" for key in different.values())
    raise InvalidSetting(f'module "{name}" makes more than one Onward(); give one of {choices}')


def _meant(near: list[str]) -> str:
    return f' Did you mean "{near[0]}"?' if near else ""
