"""5,000 pods on 1,000 simulated nodes: the test of 500 pods that every run has, at its full size."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tools.paths import REPOSITORY
from tools.tables import table

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

PODS = 5000
_TEST = "tests/cluster/test_scheduling.py::TestScale"


def measure(report: Progress) -> Table:
    """Return the table; the cluster that it takes is of its own, and gone afterwards.

    Raises:
        subprocess.CalledProcessError: A pod was without a node, had two, or a gang was placed in part.
    """
    report.detail(_TEST)
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--durations=4", _TEST],
        cwd=REPOSITORY, env={**os.environ, "ATHANOR_SCALE_PODS": str(PODS)}, check=True,
    )  # fmt: skip
    seconds = time.monotonic() - began
    return table("Scale", ["what", "time"], [[f"a cluster, {PODS} pods running on it, both gone", f"{seconds:.0f} s"]])
