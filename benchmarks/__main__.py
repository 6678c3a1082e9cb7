"""Measure: `make bench` all of it, after `make up`; `python -m benchmarks scheduling` one part."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import (
    checkpoint_pause,
    compression,
    data_wait,
    engine_overhead,
    environment_preview,
    monitoring_cost,
    platform_memory,
    restart,
    scale,
    scheduling,
    serving,
    submission,
    tokens,
    training,
    warm_start,
)
from tools.paths import paths
from tools.progress import Progress
from tools.terminal import status_of

MEASURES = {
    "environment-preview": environment_preview.measure,
    "platform-memory": lambda _: platform_memory.measure(),
    "engine-overhead": engine_overhead.measure,
    "warm-start": warm_start.measure,
    "submission": lambda _: submission.measure(),
    "scheduling": scheduling.measure,
    "scale": scale.measure,
    "monitoring-cost": monitoring_cost.measure,
    "compression": compression.measure,
    "serving": serving.measure,
    "checkpoint-pause": checkpoint_pause.measure,
    "training": training.measure,
    "tokens": tokens.measure,
    "restart": restart.measure,
    "data-wait": data_wait.measure,
}
"""What prints a table; the second to the fifth of the running local environment, the others need none."""


def main(arguments: list[str] | None = None) -> None:
    """Print one table after the other: those named, else all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and print a table of each.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(MEASURES)}")
    names: list[str] = parser.parse_args(arguments).names
    if unknown := set(names) - set(MEASURES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}. Fix: one or more of {', '.join(MEASURES)}")
    console = Console(highlight=False, width=120)
    report = Progress(durations_file=paths().cache / "bench-durations.json")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    console.print(f"{os.cpu_count()} CPUs ({_cpu_model()}), {memory_gib:.0f} GiB, Linux {platform.release()}")
    for name in names or MEASURES:
        console.print(f"load average {os.getloadavg()[0]:.1f}")
        console.print(MEASURES[name](report))


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    sys.exit(status_of(main))
