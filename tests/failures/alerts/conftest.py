"""A certificate for servers on loopback."""

from __future__ import annotations

import pytest

from tests.failures.alerts.servers import Certificate, make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for `localhost`, which signs itself."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))
