"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = [
    "tests.fixtures.local_cluster",
    "tests.fixtures.clone",
    "tests.fixtures.recorded_stack",
    "tests.fixtures.team",
]

USES_ENVIRONMENT = re.compile(r"\bserved: Clone\b")


class FilesAndEnvironment(LoadFileScheduling):
    """Give a file's tests to one process, and all files that use the environment of `make up` to the same one.

    It is made once, and they build on each other. (xdist's own `--dist loadgroup` does not group on pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "environment" if _uses_environment(self.config.rootpath / file) else file


@cache
def _uses_environment(file: Path) -> bool:
    return USES_ENVIRONMENT.search(file.read_text(encoding="utf-8")) is not None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndEnvironment:
    """Share the tests like that wherever several processes run them."""
    return FilesAndEnvironment(config, log)
