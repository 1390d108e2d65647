"""What the tests of waits share."""

from __future__ import annotations

import pytest

from onward import Onward
from tests.work.waits.wait_runs import Runs


@pytest.fixture
def runs(app: Onward) -> Runs:
    """Jobs that wait, once for each database."""
    return Runs(app)
