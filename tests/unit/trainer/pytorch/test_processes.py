"""A program ends with its status, and what it registered for the end is done, but modules are not deleted."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import atexit, sys
    from trainer.pytorch.processes import end_with

    class ReportsDeletion:
        def __del__(self):
            print("deleted")

    reporter = ReportsDeletion()
    atexit.register(print, "registered")

    def main():
        sys.stdout.write("written ")
        {end}

    end_with(main)
"""


def run(end: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(PROGRAM).format(end=end)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("end", "status"), [("pass", 0), ("sys.exit(143)", 143), ("raise ValueError('x=3')", 1)])
def test_the_status_is_that_of_python_and_modules_stay(end, status):
    ended = run(end)
    assert (ended.returncode, ended.stdout) == (status, "written registered\n")
    assert ("ValueError: x=3" in ended.stderr) == (status == 1)


def test_a_message_as_status_is_printed():
    ended = run("sys.exit('no such folder')")
    assert ended.returncode == 1
    assert "no such folder" in ended.stderr
