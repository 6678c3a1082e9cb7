"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

import pytest

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = [
    "tests.fixtures.local_cluster",
    "tests.fixtures.clone",
    "tests.fixtures.recorded_stack",
    "tests.fixtures.team",
]


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the tests' ids
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one process runs, in their order, where several share the work (`--dist loadgroup`).

    A file's tests stay together, and so do all files that use the environment of `make up`: it is made once, and they
    build on each other.
    """
    for item in items:
        uses_environment = "served" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("environment" if uses_environment else str(item.path)))
