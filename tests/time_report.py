"""The time report of a test run: seconds and CPU seconds by level, by file and by test, and the levels over budget."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

SLOWEST_TESTS = 25
SLOWEST_FILES = 15
SHORTEST_SHOWN_SECONDS = 0.05
PROC_STAT = Path("/proc/stat")
BUDGET_FILE = Path(__file__).with_name("cpu_budget.json")
CPU_SECONDS = "cpu_seconds"
"""Attribute of a report; xdist sends those of simple types along."""

REST = "rest of the machine"
"""In the budget: local clusters, which no test waits for, and whatever else ran meanwhile."""
_TOLERATED = 1.25
"""How far a level may exceed its budget before the report says so."""

_PHASES = ("setup", "call", "teardown")


@dataclass
class Times:
    """Seconds of one test or of several together; the time of a fixture counts for the first test that uses it."""

    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0
    cpu: float = 0.0
    """CPU seconds of the process that runs the test, and of those that it waited for meanwhile."""

    @property
    def total(self) -> float:
        """Seconds of all three phases."""
        return self.setup + self.call + self.teardown

    def __add__(self, other: Times) -> Times:
        return Times(
            self.setup + other.setup, self.call + other.call, self.teardown + other.teardown, self.cpu + other.cpu
        )


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
    header = f"{'CPU':>9} {'seconds':>9} {'set-up':>9} {'test':>9} {'teardown':>9} {'tests':>6}  {title}"
    return [header, *(_row(name, count, one) for name, (count, one) in printed), ""]


def _row(name: str, count: int, one: Times) -> str:
    return f"{one.cpu:9.1f} {one.total:9.1f} {one.setup:9.1f} {one.call:9.1f} {one.teardown:9.1f} {count:6}  {name}"


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


def calibration_seconds() -> float:
    """Return the CPU seconds of a fixed loop here and now: the quickest of five, for others run on the machine, too."""

    def once() -> float:
        begin = time.process_time()
        sum(number * number % 7 for number in range(300_000))
        return time.process_time() - begin

    return min(once() for _ in range(5))


def over_budget(spent: Mapping[str, float], budget: Mapping[str, Any], loop_seconds: float) -> list[str]:
    """Return a line for each level that spent more than its budget and a quarter.

    Args:
        spent: CPU seconds by level.
        budget: `loop_seconds` of the machine whose CPU seconds by level are in `levels`.
        loop_seconds: what the loop took in this run: budgets are scaled by the ratio of the two.
    """
    scale = loop_seconds / budget["loop_seconds"]
    allowed = {name: seconds * scale for name, seconds in budget["levels"].items()}
    return [
        f"WARNING: {name} took {spent[name]:.0f} CPU seconds; its budget is {seconds:.0f} on this machine "
        f"({budget['levels'][name]} in tests/{BUDGET_FILE.name}, times {scale:.2f} for the speed of this machine)."
        for name, seconds in allowed.items()
        if spent.get(name, 0.0) > seconds * _TOLERATED
    ]


class CpuOfTests:
    """Puts the CPU seconds of each phase on its report, in the process that runs the tests."""

    def __init__(self) -> None:
        self._counted = cpu_seconds_of_run()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Count from the report before this one, so that nothing between two tests is left out."""
        report = yield
        now = cpu_seconds_of_run()
        setattr(report, CPU_SECONDS, now - self._counted)
        self._counted = now
        return report


class TimeReport:
    """Collects the phases of all tests, whichever process ran them, and prints the tables before pytest's summary."""

    def __init__(self) -> None:
        self._times: dict[str, Times] = defaultdict(Times)
        self._machine_at_start = cpu_seconds_of_machine()
        self._loop_seconds = calibration_seconds()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase; xdist hands the reports of its workers to the process that started them."""
        if report.when not in _PHASES:
            return  # a process that died: xdist words it as a test that failed in no phase
        times = self._times[report.nodeid]
        if not isinstance(report, pytest.SubtestReport):  # its seconds are part of its test's
            setattr(times, report.when, getattr(times, report.when) + report.duration)
        times.cpu += getattr(report, CPU_SECONDS, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print; pytest's own short summary and its last line come after this."""
        if not self._times:
            return
        terminalreporter.section("where the time went")
        for line in [*tables(self._times), *self._cpu_lines()]:
            terminalreporter.write_line(line)

    def _cpu_lines(self) -> Iterable[str]:
        spent = {name: one.cpu for name, (_, one) in _grouped(self._times, level).items()}
        yield (
            f"CPU time: {sum(spent.values()):.1f} s of the tests and of the programs that they waited for. "
            "Processes of local clusters are not in it: nobody waits for them."
        )
        now = cpu_seconds_of_machine()
        if now is not None and self._machine_at_start is not None:
            whole = now - self._machine_at_start
            spent[REST] = whole - sum(spent.values())
            yield (
                f"CPU time of the whole machine meanwhile: {whole:.1f} s, with local clusters and whatever else ran on "
                f"it. The calibration loop took {self._loop_seconds:.4f} s."
            )
        yield from over_budget(spent, json.loads(BUDGET_FILE.read_text(encoding="utf-8")), self._loop_seconds)


def pytest_configure(config: pytest.Config) -> None:
    """Count where tests run; collect where results are reported, which with xdist is the process that started it."""
    config.pluginmanager.register(CpuOfTests(), "cpu-of-tests")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimeReport(), "time-report")
