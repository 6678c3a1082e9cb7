"""The tests of `make test-fast`, and those that it leaves out: `python -m tests.fast_run <arguments of pytest>`.

Unit and manifest tests need nothing but Python packages, apart from those with the marker `built`, which run programs
that take minutes to build. So this run starts none of these, whether they are there or not: it is the same everywhere.
Those with the marker `long` are left out as well: a hundredth of the tests takes half of their CPU time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import REPOSITORY
from tools.toolchain.acquire import SOURCES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

TESTS = Path(__file__).parent
QUICK = ("unit", "manifests")
"""The levels that this runs; every other folder of tests is one that it does not."""
MARKERS = ("built", "long")
_UNMARKED = " and ".join(f"not {marker}" for marker in MARKERS)
# As many processes as CPUs: these tests compute, and each process collects all of them first.
_FLAGS = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "-m", _UNMARKED)


def main(arguments: Sequence[str]) -> int:
    """Run both, print what was not run, and return 0 if both passed.

    At the same time: for a minute and a half, the type checker has work for one CPU only.
    """
    command = [sys.executable, "-m", "pytest", *_FLAGS, *(str(TESTS / level) for level in QUICK), *arguments]
    make = ["make", "--no-print-directory", "check"]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(make, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT) as check,
    ):
        # A test that needs a program and lacks its marker fails at once, and builds nothing.
        tests = subprocess.run(command, env={**os.environ, SOURCES_VARIABLE: "path"}, check=False).returncode
        failed = check.wait()
        output.seek(0)
        print(f"\n{output.read()}\nmake check failed" if failed else "\nmake check passed")
    print(left_out(other_levels(TESTS)), flush=True)
    return tests or failed


def other_levels(tests: Path) -> list[str]:
    """Return the folders next to those of the quick levels that hold test files of their own."""
    return sorted({file.parent.name for file in tests.glob("*/test_*.py")} - set(QUICK))


def left_out(levels: Sequence[str]) -> str:
    """Return what this does not run, and the commands that do."""
    pytest = ".venv-test/bin/python -m pytest"
    one = f"{pytest} tests/{levels[0]}"
    quick, markers = " and ".join(QUICK), " or ".join(MARKERS)
    marked = f"{pytest} -m '{markers}' {' '.join(f'tests/{level}' for level in QUICK)}"
    width = max(len(one), len(marked))
    return "\n".join(
        [
            "",
            f"Not run: the levels {', '.join(levels)}, and tests of {quick} marked {markers}.",
            f"  {'make test':{width}}  everything, as root; builds the programs first, once",
            f"  {one:{width}}  one level, after `make tools`",
            f"  {marked:{width}}  those marked, after `make tools`",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
