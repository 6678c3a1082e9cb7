"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tools.toolchain.acquire import KEEP_SOURCES_VARIABLE

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# A module stands before those that import it: pytest rewrites the assertions of a plugin when it loads it.
pytest_plugins = [
    "tests.time_report",
    "tests.fixtures.local_cluster",
    "tests.fixtures.clone",
    "tests.fixtures.containerd",
    "tests.fixtures.recorded_stack",
    "tests.fixtures.team",
    "tests.fixtures.engineer",
    "tests.fixtures.gateway",
    "tests.fixtures.vendors",
]

# How long an example takes says how busy the machine is, and nothing of the code. The same examples each time: a change
# is not to fail because of what was there before it.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
# For runs by hand, to find more: `--hypothesis-profile=thorough`.
settings.register_profile("thorough", settings.get_profile("any-machine"), max_examples=1000, derandomize=False)
settings.load_profile("any-machine")

# The engine, its providers and kubectl end within seconds: with Go's default, a sixth of their CPU collects garbage.
# The limit says how much later it is collected. The cluster's programs have values of their own.
os.environ.update({"GOGC": "400", "GOMEMLIMIT": "1GiB"})
# Some tests build a program that `make up` does not, from the packages that the others consist of.
os.environ.setdefault(KEEP_SOURCES_VARIABLE, "1")

LONGEST = "workloads"
"""The environment whose tests take longest, one after the other."""
_STEP_BACK = 5
"""In niceness: where two programs want one CPU, that of the longest tests gets three quarters of it."""
USES_ENVIRONMENT = re.compile(r"\b(?:served: Clone|engineer: Engineer)\b")
RUNS_WORKLOADS = re.compile(r"\b(?:team: Team|engineer: Engineer)\b")
QUICK = re.compile(r"tests/(unit|manifests)/")
"""Files of tests without a cluster, and without updates of stacks."""
CLOUD, CLOUD_TESTS = "cloud", Path(__file__).with_name("cloud")


class FilesAndEnvironment(LoadFileScheduling):
    """Give a file's tests to one process, and files that share something that is created once to the same one.

    All that use an environment of `make up` build on each other. There are two of them, one for workloads of teams and
    engineers, one for the platform itself: a single process would need longer for these tests than the others for the
    rest. Those of tests/cloud have one cluster. (xdist's own `--dist loadgroup` does not group on pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _environment(self.config.rootpath / file) or file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the last process tests without a cluster as long as there are any, and the others those with one.

        A cluster takes a tenth to a fifth of a CPU for as long as it lives, and lives the longer the more of them want
        the CPUs: so few at a time, and next to them what uses the CPUs while those tests wait.
        """
        if node.gateway.id == f"gw{self.numnodes - 1}":
            quick = next((scope for scope in self.workqueue if QUICK.match(scope)), None)
            if quick:
                self.workqueue.move_to_end(quick, last=False)
        super()._assign_work_unit(node)


@cache
def _environment(file: Path) -> str:
    """Return the name of what a file's tests share with those of other files; empty if they share nothing."""
    if CLOUD_TESTS in file.parents:
        return CLOUD
    content = file.read_text(encoding="utf-8")
    if not USES_ENVIRONMENT.search(content):
        return ""
    return LONGEST if RUNS_WORKLOADS.search(content) else "platform"


def _shared_fixture(file: Path) -> str:
    """Return the name of the fixture of the session that a file's tests share; empty if they share nothing."""
    environment = _environment(file)
    return "cluster" if environment == CLOUD else "served" if environment else ""


@cache
def _step_back() -> None:
    """Let the longest tests have the CPUs first: they decide how long a run takes, and the others only fill it."""
    os.nice(_STEP_BACK)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Step back in a process of several that has something else to do than the longest tests."""
    if "PYTEST_XDIST_WORKER" in os.environ and _environment(item.path) != LONGEST:
        _step_back()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a cluster after its last test: one that idles to the end of the session takes up to a fifth of a CPU."""
    shared = _shared_fixture(item.path)
    if not shared or (nextitem and _shared_fixture(nextitem.path) == shared):
        return
    for fixture in item.session._fixturemanager.getfixturedefs(shared, item) or ():
        # with all that stands on it; pytest has no public way to end a fixture before its scope does
        fixture.finish(item._request)


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of a run a folder for temporary files, which ends with it.

    Providers leave kubeconfigs there, torchrun and TensorFlow folders and files of code.
    """
    if hasattr(config, "workerinput"):
        return  # the environment of the process that started this one has it
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="athanor-")
    Path(folder).chmod(0o711)  # some tests run programs as a user without rights
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndEnvironment:
    """Share the tests like that wherever several processes run them."""
    return FilesAndEnvironment(config, log)
