"""The real promtool; tests that use it have the marker `built`."""

import pytest

from tools import toolchain


@pytest.fixture(scope="session")
def promtool():
    """Return promtool."""
    return toolchain.ensure(["promtool"])["promtool"]
