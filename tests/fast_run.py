"""The tests of `make test-fast`, and what they leave out: `python -m tests.fast_run <arguments of pytest>`.

Unit and manifest tests need nothing but Python packages, apart from those with the marker `built`, which run programs
that take minutes to build. So this run starts none of these, whether they are there or not: it is the same everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.toolchain.acquire import SOURCES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

TESTS = Path(__file__).parent
QUICK = ("unit", "manifests")
"""The levels that this runs; every other folder of tests is one that it does not."""
MARKER = "built"
# As many processes as CPUs: these tests compute, and each process collects all of them first.
_FLAGS = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "-m", f"not {MARKER}")


def main(arguments: Sequence[str]) -> int:
    """Run them, print what was not run, and return pytest's exit status."""
    command = [sys.executable, "-m", "pytest", *_FLAGS, *(str(TESTS / level) for level in QUICK), *arguments]
    # A test that needs a program and lacks the marker fails at once, and builds nothing.
    status = subprocess.run(command, env={**os.environ, SOURCES_VARIABLE: "path"}, check=False).returncode
    print(left_out(other_levels(TESTS)), flush=True)
    return status


def other_levels(tests: Path) -> list[str]:
    """Return the folders next to those of the quick levels that hold test files of their own."""
    return sorted({file.parent.name for file in tests.glob("*/test_*.py")} - set(QUICK))


def left_out(levels: Sequence[str]) -> str:
    """Return what this does not run, and the commands that do."""
    pytest = ".venv-test/bin/python -m pytest"
    one = f"{pytest} tests/{levels[0]}"
    marked = f"{pytest} -m {MARKER} {' '.join(f'tests/{level}' for level in QUICK)}"
    width = max(len(one), len(marked))
    return "\n".join(
        [
            "",
            f"Not run: the levels {', '.join(levels)}, and tests of {' and '.join(QUICK)} with the marker {MARKER!r}.",
            f"  {'make test':{width}}  everything, as root; builds the programs first, once",
            f"  {one:{width}}  one level, after `make tools`",
            f"  {marked:{width}}  those with the marker, after `make tools`",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
