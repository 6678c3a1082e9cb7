"""A whole run of the tests; a few failures get a second run, alone: `python -m tests.whole_run <arguments of pytest>`.

Thousands of tests share two processors with clusters, compilers and each other. What fails there and passes alone says
more about the machine than about the change that is being tested, so it does not fail the run. It is printed all the
same: such a test, or what it tests, has a race that somebody has to remove.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

# A broken change fails in more places, and to run all those again would only take time.
MOST_FILES_AGAIN = 3


def main(arguments: Sequence[str]) -> int:
    """Run pytest with `arguments`, then what failed in at most three files once more in one process.

    Returns the exit status of the last of these runs of pytest.
    """
    with tempfile.TemporaryDirectory(prefix="athanor-tests-") as cache:
        # Of its own: the usual one also remembers what failed in runs before this one.
        command = [sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"]
        status = _run(command)
        failed = _failed_tests(Path(cache))
        if status != pytest.ExitCode.TESTS_FAILED or not _few(failed):
            return status
        print(_announcement(failed), flush=True)
        alone = ["-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none"]
        return _run([*command, *alone])


def _run(command: Sequence[str]) -> int:
    """Wait for a command however it ends: it stops clusters after Ctrl-C, and must not be killed over that."""
    with subprocess.Popen(command) as process:
        former = (
            signal.signal(signal.SIGINT, lambda *_: None),
            signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
        )
        try:
            return process.wait()
        finally:
            for which, handler in zip((signal.SIGINT, signal.SIGTERM), former, strict=True):
                signal.signal(which, handler)


def _failed_tests(cache: Path) -> list[str]:
    record = cache / "v" / "cache" / "lastfailed"
    failed = sorted(json.loads(record.read_text(encoding="utf-8"))) if record.is_file() else []
    # What could not even be collected has no test to run again: pytest would run all of them, in one process.
    return failed if all("::" in test for test in failed) else []


def _few(failed: Sequence[str]) -> bool:
    return 0 < len({test.partition("::")[0] for test in failed}) <= MOST_FILES_AGAIN


def _announcement(failed: Sequence[str]) -> str:
    tests = "1 test" if len(failed) == 1 else f"{len(failed)} tests"
    lines = [f"  {test}" for test in failed]
    return "\n".join(
        [
            "",
            f"{tests} failed among the others and now run once more, alone. What fails again fails the run;",
            "what passes has a race in it, or in what it tests, that is worth removing:",
            *lines,
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
