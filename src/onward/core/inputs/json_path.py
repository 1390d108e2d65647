"""Paths of values in a payload, such as `$.items[3].price`; every path has a bounded length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_LONGEST = 200
_LONGEST_STEP = 80
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")


def step(key: object) -> str:
    """Write one step of a path: the key of an object, or the index in a list."""
    if not isinstance(key, str):
        return f"[{key!r:.{_LONGEST_STEP}}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key[:_LONGEST_STEP])}]"


def write_path(keys: Iterable[object]) -> str:
    """Write the path that the keys form, starting at the root; a long path loses its middle."""
    path = "$" + "".join(map(step, keys))
    return path if len(path) <= _LONGEST else f"{path[: _LONGEST // 2]} ... {path[-_LONGEST // 2 :]}"
