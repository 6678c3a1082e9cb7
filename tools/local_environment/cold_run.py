"""Estimate of the first `make up` on a machine, with an empty cache and all programs to compile.

Machines differ in speed by a factor of two and more, and one machine by half from hour to hour. So the times of a
reference run are scaled by this machine's present speed, measured by a second of work of the same kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.local_environment.programs import CORE, GROUPS, MONITORING
from tools.time_left import still_needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.progress import Progress
    from tools.time_left import TimeLeft

# Of the reference run (docs/benchmarks.md): two cores of an Intel Xeon, 24 GiB, Debian 12, only package registries
# reachable, nothing cached, nothing else running.
REFERENCE_CORES = 2
REFERENCE_PROBE_SECONDS = 0.10
STEP_SECONDS = {
    "preflight": 15.0,
    "trainer image": 110.0,
    "tools": 1.0,
    "local cluster": 10.0,
    "images": 3.0,
    "platform": 20.0,
    "training": 30.0,
    "serving": 1.0,
    "monitoring": 60.0,
}
"""Seconds that each step itself takes, without its waits."""
PROGRAMS_SECONDS = {CORE: 320.0, MONITORING: 80.0}
"""Seconds from the start until the programs that a prediction needs are compiled, and from then until those that watch
the platform are, each with the steps that run at the same time."""
_WAITING_STEP = {CORE: "tools", MONITORING: "monitoring"}
# Of that, what a machine with more cores does not do any faster: the longest chain of packages, and linking.
_ONE_AFTER_ANOTHER = 0.25
# What a compiler does: reads text, builds trees, allocates. The file is the longest that every Python has.
_PROBE = """
import argparse, pathlib
text = pathlib.Path(argparse.__file__).read_text(encoding="utf-8")
for _ in range(6):
    compile(text, "probe", "exec")
"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The time that this machine takes, as a multiple of the reference machine's."""

    alone: float
    """Factor for work that keeps one core busy."""
    cores: int

    @property
    def compiling(self) -> float:
        """For work that keeps all cores busy, as far as it can."""
        return self.alone * (_ONE_AFTER_ANOTHER + (1 - _ONE_AFTER_ANOTHER) * REFERENCE_CORES / self.cores)

    def steps(self) -> dict[str, float]:
        """Return the seconds that each step needs of itself here."""
        return {name: seconds * self.alone for name, seconds in STEP_SECONDS.items()}


def measure() -> Scale:
    """Run the probe on every core at the same time; takes one to two seconds."""
    cores = len(os.sched_getaffinity(0))
    begin = time.monotonic()
    command = [sys.executable, "-I", "-S", "-c", _PROBE]
    probes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(cores)]
    for probe in probes:
        probe.wait()
    return Scale(alone=(time.monotonic() - begin) / REFERENCE_PROBE_SECONDS, cores=cores)


class Forecast:
    """The forecast of a run that has to build programs first, corrected while they are built."""

    def __init__(self, outlook: TimeLeft, expected: Mapping[str, float]) -> None:
        """Expect from now on the programs of groups, one after the other, within these seconds."""
        self._outlook = outlook
        self._expected = dict(expected)
        self._begun = dict.fromkeys(self._expected, time.monotonic())
        moment = time.monotonic()
        for group, seconds in self._expected.items():
            moment += seconds
            outlook.wait_until(_WAITING_STEP[group], moment)

    @classmethod
    def of(cls, report: Progress, steps: list[str], missing: Sequence[str]) -> Forecast:
        """Plan the steps of a run, and say what to expect of it where the programs of groups are `missing`."""
        if not missing:
            return cls(report.plan(steps), {})
        scale = measure()
        # Without programs there is nothing else either. Where only the last ones are missing, the rest was seen before.
        typical = scale.steps() if CORE in missing else {"monitoring": scale.steps()["monitoring"]}
        outlook = report.plan(steps, typical)
        expected = {group: PROGRAMS_SECONDS[group] * scale.compiling for group in GROUPS if group in missing}
        forecast = cls(outlook, expected)
        if CORE in missing:
            forecast.announce(report)
        return forecast

    def announce(self, report: Progress) -> None:
        """Say how long it takes, and what a person may do meanwhile."""
        now = time.monotonic()
        first, last = (self._outlook.left(now, until) or 0.0 for until in ("serving", ""))
        report.detail(f"First run: about {_minutes(first)} to a served prediction, {_minutes(last)} to the end.")
        report.detail("Most of it is compiling, once per machine; far less if the vendors' downloads are reachable.")
        report.detail("No need to watch: if it is interrupted, the next `make up` continues from there.")
        report.detail(
            "To read in the meantime: docs/user.md (what you can do afterwards), docs/jobs.md (your own jobs)."
        )

    def on_share(self, group: str, share: float) -> None:
        """Take note of how much of a group's programs is there, 0..1.

        Of a later group only that it is complete: most of its packages were compiled for the one before, and nobody
        counts how many.
        """
        now, later = time.monotonic(), GROUPS[GROUPS.index(group) + 1 :]
        if group not in self._expected or (group != CORE and share < 1):
            return
        elapsed = now - self._begun[group]
        left = still_needed(self._expected[group], elapsed, share)
        self._outlook.wait_until(_WAITING_STEP[group], now + left)
        for next_group in (each for each in later if each in self._expected):
            # What comes later takes as much longer or shorter than expected as this does.
            seconds = PROGRAMS_SECONDS[next_group] / PROGRAMS_SECONDS[group] * (elapsed + left)
            self._expected[next_group], self._begun[next_group] = seconds, now + left
            self._outlook.wait_until(_WAITING_STEP[next_group], now + left + seconds)


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"


if __name__ == "__main__":
    # For the person who measures a reference run: the probe of the same machine belongs to its times.
    print(f"{measure().alone * REFERENCE_PROBE_SECONDS:.2f} s")
