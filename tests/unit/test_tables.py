"""Tests over tables: every row is checked, and those that fail are named."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row

TESTS = """
import pytest
from tests.tables import each_row

@pytest.fixture
def limit():
    return 3

@each_row("number, word", [(1, "one"), pytest.param(4, "four", id="beyond"), (5, "five")])
def test_numbers(limit, number, word):
    assert number < limit

@each_row("number", [1, 9], ids=lambda number: f"n{number}")
def test_refusals(number):
    if number == 1:
        pytest.skip("not here")
    with pytest.raises(ValueError):
        int(number)

@each_row("number", {"first": 1, "second": 2}.values(), ids=["first", "second"])
def test_that_passes(number):
    assert number
"""


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "1")], ids=["one", "several"])
def test_all_rows_are_checked_and_those_that_fail_are_named(tmp_path, processes):
    (tmp_path / "test_rows.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", *processes, tmp_path]
    environment = {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^SUBFAILED\[(.*?)\] \S*::(\w+)", run.stdout, re.MULTILINE)
    numbers = [("beyond", "test_numbers"), ("5, 'five'", "test_numbers")]
    assert failed == [*numbers, ("n1", "test_refusals"), ("n9", "test_refusals")], run.stdout
    assert "assert 4 < 3" in run.stdout
    assert "a row cannot skip (not here)" in run.stdout
    assert re.match(r"=+ 6 failed, 1 passed", run.stdout.splitlines()[-1])


def test_an_empty_table_is_an_error():
    with pytest.raises(ValueError, match="a table of name has no rows"):
        each_row("name", [])


def test_a_row_has_a_value_for_each_name():
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        each_row("name, value", [("a",)])
