"""Applications with policies for their queues, on both databases."""

from __future__ import annotations

import pytest

from onward import Onward
from tests.limits.queues.claiming import Claims


@pytest.fixture
def claims(app: Onward) -> Claims:
    """Claims under the lease of a worker."""
    return Claims(app)
