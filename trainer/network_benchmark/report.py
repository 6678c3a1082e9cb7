"""A table of all networks measured so far: `python3 -m trainer.network_benchmark.report --output_dir …`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.network_benchmark.result import FOLDER, Result, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UNITS = ("B", "KiB", "MiB", "GiB")
_NOTHING = "-"


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Print one table over all networks measured so far."""

    output_dir: Path
    """Folder that the benchmark runs wrote to."""


def all_reduce_table(result: Result) -> str:
    """Return the sizes of one run as text, a line each."""
    return table(
        ("size", "time us", "algbw GB/s", "busbw GB/s"),
        (
            (
                size_text(size.num_bytes),
                f"{size.microseconds:.1f}",
                f"{size.algorithm_gb_per_second:.3f}",
                f"{size.bus_gb_per_second:.3f}",
            )
            for size in result.all_reduce
        ),
    )


def comparison(results: Sequence[Result]) -> str:
    """Return all networks as text, a line each, with ratios to the first.

    Compared are the time of the smallest and the bus bandwidth of the largest all-reduce that all have measured; every
    run measures the smallest one.
    A run on other ranks, GPUs or batches than the first has numbers, but no ratios.
    """
    common = set[int].intersection(*({size.num_bytes for size in result.all_reduce} for result in results))
    smallest, largest = min(common), max(common)
    header = (
        *("network", "ranks", "per pod", "backend", "device"),
        *(f"{size_text(smallest)} us", "x", f"{size_text(largest)} busbw GB/s", "x", "images/s", "x"),
    )
    return table(header, (_row(result, results[0], smallest, largest) for result in results))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return columns of text: the first to the left, numbers to the right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join((line[0].ljust(widths[0]), *(map(str.rjust, line[1:], widths[1:])))).rstrip() for line in lines
    )


def size_text(num_bytes: int) -> str:
    """Return a size in the largest unit that gives a whole number, for example `4 KiB`."""
    unit = 0
    while num_bytes % 1024 == 0 and unit < len(_UNITS) - 1 and num_bytes:
        num_bytes //= 1024
        unit += 1
    return f"{num_bytes} {_UNITS[unit]}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 after the table, 1 where nothing was measured."""
    config = command_line.parse(ReportConfig, "trainer.network_benchmark.report", arguments)
    results = read_all(config.output_dir)
    if not results:
        fix = "Fix: run trainer.network_benchmark with this --output_dir"
        print(f"report: output_dir={config.output_dir}: no results in {FOLDER}/. {fix}", file=sys.stderr)
        return 1
    print(comparison(results))
    return 0


def _row(result: Result, first: Result, smallest: int, largest: int) -> tuple[str, ...]:
    def measured(of: Result) -> tuple[float, float, float | None]:
        by_size = {size.num_bytes: size for size in of.all_reduce}
        return by_size[smallest].microseconds, by_size[largest].bus_gb_per_second, of.images_per_second

    cells = [result.network, str(result.world_size), str(result.ranks_per_pod), result.backend, result.device]
    for value, base, digits in zip(measured(result), measured(first), (1, 3, 1), strict=True):
        comparable = result.setting == first.setting
        cells.append(_NOTHING if value is None else f"{value:.{digits}f}")
        cells.append(f"{value / base:.3f}" if comparable and value and base else _NOTHING)
    return tuple(cells)


if __name__ == "__main__":
    sys.exit(main())
