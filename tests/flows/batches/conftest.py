"""What the tests of batches share."""

import pytest

from onward import Client
from tests.flows.batches.crew import Crew


@pytest.fixture
def crew(client: Client) -> Crew:
    """A worker and its batches, once for each database."""
    return Crew(client)
