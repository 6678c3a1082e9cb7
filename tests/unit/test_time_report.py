"""The report of where a test run's time went, over runs of pytest with and without several processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from _pytest.subtests import SubtestContext

from tests.fixtures.recorded_stack import REPOSITORY
from tests.time_report import (
    SLOWEST_FILES,
    SLOWEST_TESTS,
    TimeReport,
    Times,
    cpu_seconds_of_machine,
    over_budget,
    tables,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

# Other plugins are most of what a start of pytest costs.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
BURNT_SECONDS = 0.5
BURN = f"import time\nwhile time.process_time() < {BURNT_SECONDS}: pass"
UNIT = f"""
import subprocess, sys

import pytest

@pytest.fixture(scope="module")
def child():
    subprocess.run([sys.executable, "-c", {BURN!r}], check=True)

def test_with_a_child(child):
    pass

def test_that_fails():
    raise ValueError("as it should")
"""
ENGINE = """
def test_quick():
    pass
"""


@pytest.fixture
def project(tmp_path) -> Path:
    for level, text in (("unit", UNIT), ("engine", ENGINE)):
        (tmp_path / "tests" / level).mkdir(parents=True)
        (tmp_path / "tests" / level / f"test_{level}.py").write_text(text)
    (tmp_path / "pytest.ini").touch()
    return tmp_path


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "2")], ids=["one", "several"])
def test_tables_and_cpu_time_stand_before_the_summary_of_pytest(project, processes):
    command = [sys.executable, "-m", "pytest", "-p", "tests.time_report", "-p", "no:cacheprovider", *processes]
    run = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    head, _, report = run.stdout.partition("= where the time went =")
    assert "as it should" in head
    assert re.search(r"^ .*  +1  engine$", report, re.MULTILINE), report
    assert re.search(r"^ .*  +2  unit$", report, re.MULTILINE), report
    slowest = next(line.split() for line in report.splitlines() if line.endswith("test_unit.py::test_with_a_child"))
    cpu, seconds, setup, call, *_ = map(float, slowest[:-1])
    assert cpu >= BURNT_SECONDS, "of the program that the fixture waited for"
    assert seconds >= setup >= BURNT_SECONDS > call, "a fixture counts as set-up"
    (spent,) = re.findall(r"^CPU time: ([\d.]+) s", report, re.MULTILINE)
    assert float(spent) > BURNT_SECONDS
    assert re.search(r"^CPU time of the whole machine meanwhile: [\d.]+ s", report, re.MULTILINE)
    assert "short test summary info" in report
    assert re.match(r"=+ 1 failed, 2 passed in .*=+$", report.splitlines()[-1])


def test_the_seconds_of_a_subtest_are_not_counted_twice_and_its_cpu_seconds_once():
    report = TimeReport()
    facts = {"location": ("a.py", 1, "test"), "keywords": {}, "outcome": "failed", "longrepr": None, "when": "call"}
    context = SubtestContext(msg="row", kwargs={})
    subtest = pytest.SubtestReport("a.py::test", **facts, duration=1.0, context=context, cpu_seconds=0.25)
    report.pytest_runtest_logreport(subtest)
    report.pytest_runtest_logreport(pytest.TestReport("a.py::test", **facts, duration=2.0, cpu_seconds=0.5))
    assert report._times == {"a.py::test": Times(call=2.0, cpu=0.75)}


def test_a_process_that_dies_hides_no_failure(project):
    (project / "tests" / "unit" / "test_dies.py").write_text("import os\n\ndef test_dies():\n    os._exit(1)\n")
    plugins = ["-p", "tests.time_report", "-p", "no:cacheprovider", "-p", "xdist", "-n", "2"]
    command = [sys.executable, "-m", "pytest", *plugins]
    run = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "crashed while running 'tests/unit/test_dies.py::test_dies'" in run.stdout
    assert re.match(r"=+ 2 failed, 2 passed in .*=+$", run.stdout.splitlines()[-1])


def test_nothing_is_printed_where_no_test_ran(project):
    command = [sys.executable, "-m", "pytest", "-p", "tests.time_report", "--collect-only", "-q"]
    run = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "where the time went" not in run.stdout


def test_tables_are_aligned_sum_up_and_start_with_the_slowest():
    lines = tables(
        {
            "tests/unit/a/test_a.py::test_one[tests/engine]": Times(1, 2, 3, cpu=4),
            "tests/unit/a/test_a.py::test_two": Times(call=0.5, cpu=0.25),
            "tests/cluster/test_b.py::test_three": Times(setup=1234.56),
            "tests/manifests/test_c.py::test_four": Times(call=0.01),
        }
    )
    assert lines == [
        "      CPU   seconds    set-up      test  teardown  tests  level",
        "      0.0    1234.6    1234.6       0.0       0.0      1  cluster",
        "      4.2       6.5       1.0       2.5       3.0      2  unit",
        "      0.0       0.0       0.0       0.0       0.0      1  manifests",
        "",
        f"      CPU   seconds    set-up      test  teardown  tests  slowest files (at most {SLOWEST_FILES})",
        "      0.0    1234.6    1234.6       0.0       0.0      1  tests/cluster/test_b.py",
        "      4.2       6.5       1.0       2.5       3.0      2  tests/unit/a/test_a.py",
        "",
        f"      CPU   seconds    set-up      test  teardown  tests  slowest tests (at most {SLOWEST_TESTS})",
        "      0.0    1234.6    1234.6       0.0       0.0      1  tests/cluster/test_b.py::test_three",
        "      4.0       6.0       1.0       2.0       3.0      1  tests/unit/a/test_a.py::test_one[tests/engine]",
        "      0.2       0.5       0.0       0.5       0.0      1  tests/unit/a/test_a.py::test_two",
        "",
    ]


def test_a_long_table_ends_with_the_last_of_the_slowest():
    lines = tables({f"tests/unit/test_a.py::test[{seconds}]": Times(call=seconds) for seconds in range(1, 101)})
    tests = [line for line in lines if "::" in line]
    assert len(tests) == SLOWEST_TESTS
    assert (tests[0].split()[1], tests[-1].split()[1]) == ("100.0", "76.0")


def test_cpu_time_of_the_machine_is_what_it_did_not_idle_or_wait(tmp_path):
    stat = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    parts = [ticks * factor for factor in (1, 2, 4, 1000, 2000, 8, 16, 4000, 1, 1)]
    stat.write_text(f"cpu  {' '.join(map(str, parts))}\ncpu0 1 2 3\n")
    assert cpu_seconds_of_machine(stat) == 1 + 2 + 4 + 8 + 16
    assert cpu_seconds_of_machine(tmp_path / "missing") is None


def test_a_level_is_named_when_it_exceeds_its_budget_by_more_than_a_quarter_at_this_machines_speed():
    budget = {"loop_seconds": 0.02, "levels": {"unit": 100, "engine": 100, "cloud": 100}}
    spent = {"unit": 251.0, "engine": 250.0, "manifests": 1000.0}
    [line] = over_budget(spent, budget, loop_seconds=0.04)
    assert line.startswith("WARNING: unit took 251 CPU seconds; its budget is 200 on this machine")
