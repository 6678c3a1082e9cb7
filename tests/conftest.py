"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = ["tests.fixtures.local_cluster", "tests.fixtures.clone", "tests.fixtures.recorded_stack"]

_CLOUD = {"test_api_double_nodes", "test_dev_environment", "test_environment_faults"}
_CLUSTERS = {"cluster", "faults"}


class GroupScheduling(LoadScopeScheduling):
    """Gives each process whole groups of tests, the largest first.

    The tests of the local cluster build on each other and compare the machine, so one process runs them all; those of a
    pretended account mostly wait for the provider and run beside them. Elsewhere a file is a group.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        if file.stem in _CLOUD:
            return "cloud"
        if file.parent.name in _CLUSTERS or file.stem == "test_existing_cluster":
            return "clusters"
        return str(file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Share the tests by groups (a hook of pytest-xdist)."""
    return GroupScheduling(config, log)
