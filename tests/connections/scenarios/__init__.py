"""The scenarios of the contract: each runs in a transaction and gives the ids of jobs to be found after."""

import pytest

# Only the asserts of test modules are explained by themselves.
pytest.register_assert_rewrite(
    f"{__name__}.controlling",
    f"{__name__}.enqueueing",
    f"{__name__}.keying",
    f"{__name__}.metering",
    f"{__name__}.resolving",
    f"{__name__}.working",
)
