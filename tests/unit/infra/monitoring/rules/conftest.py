"""The real promtool, where it is there already: the quick tests must not start a build of minutes."""

import pytest

from tools import toolchain
from tools.toolchain.acquire import SOURCES_VARIABLE


@pytest.fixture(scope="session")
def promtool():
    """Return promtool; `make test` has built it before, `make test-fast` alone may have not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOURCES_VARIABLE, "path")
        try:
            return toolchain.ensure(["promtool"])["promtool"]
        except toolchain.ToolchainError:
            pytest.skip("promtool is not built yet: `make tools` builds it")
