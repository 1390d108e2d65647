"""Read the URL of a database: of an argument, else of ONWARD_URL, else of the default file.

No message shows a password.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from onward.errors import InvalidSetting

_VARIABLE = "ONWARD_URL"
_DEFAULT = "sqlite:///onward.db"


def read_url(url: str | None) -> tuple[str, Path | None]:
    """Return the URL to use and the SQLite file that it names; None for a PostgreSQL database."""
    if url is not None and (not isinstance(url, str) or not url):
        raise InvalidSetting(f"url is {url!r}; give sqlite:///file.db or postgresql://…, or leave it out")
    if url is None and (set_outside := os.environ.get(_VARIABLE)):
        return set_outside, _sqlite_path(set_outside, _VARIABLE)
    url = url or _DEFAULT
    return url, _sqlite_path(url, "url")


def overruled_url(url: str) -> str | None:
    """Return ONWARD_URL if it names another database than `url`; None if it is not set or names the same."""
    outside = os.environ.get(_VARIABLE)
    return None if not outside or _same(outside, url) else outside


def shown_url(url: str) -> str:
    """Return a URL without its credentials and options; works on a URL that can't be parsed."""
    return re.sub(r"//.*@", "//***@", url, flags=re.DOTALL).partition("?")[0]


def _same(one: str, other: str) -> bool:
    try:
        paths = [_sqlite_path(url, "url") for url in (one, other)]
    except InvalidSetting:
        return False
    if None in paths:
        return _plain(one) == _plain(other)
    first, second = (path.absolute() for path in paths if path is not None)
    return first == second


def _plain(url: str) -> str:
    return url.replace("postgres://", "postgresql://", 1)


def _sqlite_path(url: str, name: str) -> Path | None:
    """Return the file that a URL names, or None if it names a PostgreSQL database."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidSetting(f"{name} {shown_url(url)!r}: {error}") from None
    if parts.scheme in {"postgresql", "postgres"}:
        return None
    if parts.scheme.startswith("postgresql+"):
        raise InvalidSetting(
            f"{name} {shown_url(url)!r} names an SQLAlchemy driver; remove +… and give postgresql://…"
        )
    if parts.scheme == "sqlite" and (parts.query or parts.fragment):
        raise InvalidSetting(
            f"{name} {shown_url(url)!r} has options after the file name, but SQLite URLs take none; "
            "remove ?… and #…"
        )
    if parts.scheme != "sqlite" or parts.netloc:
        raise InvalidSetting(
            f"{name} {shown_url(url)!r}: give sqlite:///file.db, sqlite:////absolute/file.db or postgresql://…"
        )
    path = unquote(parts.path).removeprefix("/")
    if path in {"", ":memory:"}:
        raise InvalidSetting(
            f"{name} {url!r} names no file; jobs must outlive the process, so give sqlite:///file.db"
        )
    return Path(path)
