"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = [
    "tests.fixtures.local_cluster",
    "tests.fixtures.clone",
    "tests.fixtures.recorded_stack",
    "tests.fixtures.team",
]
