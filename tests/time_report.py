"""Where the time of a test run goes: printed at its end by level, by file and by test, with the CPU time."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pytest

SLOWEST_TESTS = 25
SLOWEST_FILES = 15
SHORTEST_SHOWN_SECONDS = 0.05
PROC_STAT = Path("/proc/stat")


_PHASES = ("setup", "call", "teardown")


@dataclass
class Times:
    """Seconds of one test or of several together; the time of a fixture counts for the first test that uses it."""

    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of all three phases."""
        return self.setup + self.call + self.teardown

    def __add__(self, other: Times) -> Times:
        return Times(self.setup + other.setup, self.call + other.call, self.teardown + other.teardown)


def level(node: str) -> str:
    """Return the folder of tests/ that a test is in, such as `unit`."""
    _, _, below = node.partition("/")
    return below.partition("/")[0]


def file(node: str) -> str:
    """Return the file that a test is in."""
    return node.partition("::")[0]


def tables(times: Mapping[str, Times]) -> list[str]:
    """Return the three tables as lines, each longest first: levels, slowest files, slowest tests."""
    tests = {node: (1, one) for node, one in times.items()}
    return [
        *_table("level", _grouped(times, level)),
        *_table(f"slowest files (at most {SLOWEST_FILES})", _grouped(times, file), SLOWEST_FILES),
        *_table(f"slowest tests (at most {SLOWEST_TESTS})", tests, SLOWEST_TESTS),
    ]


def _grouped(times: Mapping[str, Times], group: Callable[[str], str]) -> dict[str, tuple[int, Times]]:
    groups: dict[str, tuple[int, Times]] = defaultdict(lambda: (0, Times()))
    for node, one in times.items():
        count, sum_so_far = groups[group(node)]
        groups[group(node)] = (count + 1, sum_so_far + one)
    return groups


def _table(title: str, rows: Mapping[str, tuple[int, Times]], limit: int | None = None) -> list[str]:
    longest_first = sorted(rows.items(), key=lambda row: row[1][1].total, reverse=True)[:limit]
    # a file or test that takes hardly any time is left out; a level never is
    printed = [row for row in longest_first if limit is None or row[1][1].total >= SHORTEST_SHOWN_SECONDS]
    if not printed:
        return []
    header = f"{'seconds':>9} {'set-up':>9} {'test':>9} {'teardown':>9} {'tests':>6}  {title}"
    return [header, *(_row(name, count, one) for name, (count, one) in printed), ""]


def _row(name: str, count: int, one: Times) -> str:
    return f"{one.total:9.1f} {one.setup:9.1f} {one.call:9.1f} {one.teardown:9.1f} {count:6}  {name}"


def cpu_seconds_of_run() -> float:
    """Return the CPU seconds of this process and of those that it and its children have waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def cpu_seconds_of_machine(stat: Path = PROC_STAT) -> float | None:
    """Return the CPU seconds that the machine has spent since it started, or None where Linux' figures are missing."""
    try:
        first = stat.read_text(encoding="ascii").splitlines()[0].split()
    except OSError:
        return None
    # man 5 proc_stat: user, nice, system, idle, iowait, irq, softirq; what guests take is in user
    user, nice, system, _, _, irq, softirq = map(int, first[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class TimeReport:
    """Collects the phases of all tests, whichever process ran them, and prints the tables before pytest's summary."""

    def __init__(self) -> None:
        self._times: dict[str, Times] = defaultdict(Times)
        self._machine_at_start = cpu_seconds_of_machine()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase; xdist hands the reports of its workers to the process that started them."""
        if report.when not in _PHASES:
            return  # a process that died: xdist words it as a test that failed in no phase
        times = self._times[report.nodeid]
        setattr(times, report.when, getattr(times, report.when) + report.duration)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print; pytest's own short summary and its last line come after this."""
        if not self._times:
            return
        terminalreporter.section("where the time went")
        for line in [*tables(self._times), *self._cpu_lines()]:
            terminalreporter.write_line(line)

    def _cpu_lines(self) -> Iterable[str]:
        yield (
            f"CPU time: {cpu_seconds_of_run():.1f} s of the tests' processes and of the programs that they waited for. "
            "Processes of local clusters are not in it: nobody waits for them."
        )
        now = cpu_seconds_of_machine()
        if now is not None and self._machine_at_start is not None:
            yield (
                f"CPU time of the whole machine meanwhile: {now - self._machine_at_start:.1f} s, "
                "with local clusters and whatever else ran on it."
            )


def pytest_configure(config: pytest.Config) -> None:
    """Collect where results are reported: in the only process, or in the one that started xdist's workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimeReport(), "time-report")
