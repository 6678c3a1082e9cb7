"""Measure the running local environment: `make bench`, after `make up`."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from rich.console import Console

from benchmarks import engine_overhead, environment_preview, platform_memory, warm_start
from tools.paths import paths
from tools.progress import Progress


def main() -> None:
    """Print one table after the other."""
    console = Console(highlight=False, width=120)
    report = Progress(durations_file=paths().cache / "bench-durations.json")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    console.print(f"{os.cpu_count()} CPUs ({_cpu_model()}), {memory_gib:.0f} GiB, Linux {platform.release()}")
    console.print(environment_preview.measure(report))
    console.print(platform_memory.measure())
    console.print(engine_overhead.measure(report))
    console.print(warm_start.measure(report))


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
