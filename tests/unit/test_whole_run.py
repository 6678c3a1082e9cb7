"""What fails in a whole run of the tests gets one more run, alone, and only if it is little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.recorded_stack import REPOSITORY
from tests.whole_run import MOST_FILES_AGAIN

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

# Other plugins are most of what a start of pytest costs.
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    raise ValueError('as it should')\n"
# Fails where another process of pytest-xdist is at work, as a test does that others starve.
FAILS_AMONG_OTHERS = """
import os

def test_needs_the_machine():
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""

# As where a case is called by a number that each process draws: pytest-xdist runs nothing then.
PROCESSES_DISAGREE = """
import os

import pytest

@pytest.mark.parametrize("number", [os.getpid()])
def test_number(number):
    pass
"""

WAITS = """
import time

import pytest

@pytest.fixture
def cluster():
    yield
    time.sleep(1)
    print("cleaned up")

def test_waits(cluster):
    print("waits", flush=True)
    time.sleep(60)
"""


def whole_run(folder: Path, tests: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").touch()
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "tests.whole_run",
        f"--rootdir={folder}",
        "-p",
        "xdist",
        "-n",
        "2",
        "--dist",
        "loadfile",
        str(folder),
    ]
    # This test may itself run in a process of pytest-xdist.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**outer, **ENVIRONMENT}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_run_without_a_failure_is_all(tmp_path):
    run = whole_run(tmp_path, {"passes": PASSES})
    assert run.returncode == pytest.ExitCode.OK
    assert "once more" not in run.stdout


def test_what_passes_alone_does_not_fail_the_run_and_is_named(tmp_path):
    run = whole_run(tmp_path, {"passes": PASSES, "starves": FAILS_AMONG_OTHERS})
    assert run.returncode == pytest.ExitCode.OK, run.stdout
    first, _, second = run.stdout.partition("1 test failed among the others and now run once more, alone.")
    assert "1 failed, 1 passed" in first
    assert "test_starves.py::test_needs_the_machine" in second
    assert "1 passed" in second.splitlines()[-1]


def test_what_fails_again_fails_the_run(tmp_path):
    run = whole_run(tmp_path, {"fails": FAILS, "starves": FAILS_AMONG_OTHERS})
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed" in run.stdout.splitlines()[-1]


def test_failures_in_many_files_are_not_tried_again(tmp_path):
    files = {f"fails_{number}": FAILS for number in range(MOST_FILES_AGAIN + 1)}
    run = whole_run(tmp_path, files)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "once more" not in run.stdout


def test_where_tests_could_not_be_collected_they_do_not_all_run_alone(tmp_path):
    run = whole_run(tmp_path, {"passes": PASSES, "differs": PROCESSES_DISAGREE})
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "Different tests were collected" in run.stdout
    assert "once more" not in run.stdout


def test_an_interrupted_run_cleans_up_first(tmp_path):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_waits.py").write_text(WAITS)
    command = [sys.executable, "-m", "tests.whole_run", f"--rootdir={tmp_path}", "-q", "-s", str(tmp_path)]
    # A run of the tests in the background ignores Ctrl-C, and all that it starts would inherit that.
    command = ["env", "--default-signal=INT", *command]
    environment = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        next(line for line in run.stdout if "waits" in line)
        os.killpg(run.pid, signal.SIGINT)
        rest = run.stdout.read()
    assert "cleaned up" in rest
    assert run.returncode == pytest.ExitCode.INTERRUPTED
