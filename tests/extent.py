"""How much a run of the tests tries."""

from __future__ import annotations

import os

__all__ = ["FULL"]

FULL = os.environ.get("ONWARD_FULL_TESTS") == "1"
"""Whether to run all that is exhaustive, long or repeated (`make test FULL=1`), or a sample of each."""
