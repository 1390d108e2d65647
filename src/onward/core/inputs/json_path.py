"""Where a value stands in a payload, as `$.items[3].price`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_LONGEST = 200
_LONGEST_STEP = 80
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")


def step(key: object) -> str:
    """Write one step: the key of an object, or the place in a list."""
    if not isinstance(key, str):
        return f"[{key!r:.{_LONGEST_STEP}}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key[:_LONGEST_STEP])}]"


def write_path(keys: Iterable[object]) -> str:
    """Write the steps from the top; the middle of a long path is left out."""
    path = "$" + "".join(map(step, keys))
    return path if len(path) <= _LONGEST else f"{path[: _LONGEST // 2]} ... {path[-_LONGEST // 2 :]}"
