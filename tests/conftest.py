"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = ["tests.fixtures.local_cluster", "tests.fixtures.clone", "tests.fixtures.recorded_stack"]

_CLOUD = {"test_api_double_nodes", "test_dev_environment", "test_environment_faults"}
_CLUSTERS = {"cluster", "faults"}


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests run one after the other when several processes share the work.

    The tests of the local cluster build on each other and compare the machine; a pretended account mostly waits, so its
    tests run beside them. Tests without a group may run anywhere.
    """
    for item in items:
        if group := _group(item.path):
            item.add_marker(pytest.mark.xdist_group(group))


def _group(file: Path) -> str | None:
    if file.stem in _CLOUD:
        return "cloud"
    if file.parent.name in _CLUSTERS or file.stem == "test_existing_cluster":
        return "clusters"
    return file.stem if file.parent.name == "engine" else None
