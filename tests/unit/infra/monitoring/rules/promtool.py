"""Alerts and recordings as cases in Python, run by the real promtool: one run per area, one test per case."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.monitoring.rules import areas
from infra.settings.alert_thresholds import AlertThresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from infra.monitoring.rules.rule import Alert, Area

Labels = dict[str, str]
THRESHOLDS = AlertThresholds()


@dataclass(frozen=True, kw_only=True)
class AlertCase:
    """Samples, and when an alert fires for which of them."""

    alert: str
    says: str
    """What this case is about, for the test's name."""
    series: Mapping[str, str]
    """Series in PromQL's notation: values in promtool's, one per `interval`."""
    fires: Mapping[str, Sequence[Labels]]
    """Time after the start, such as 15m: labels of what fires then, and nothing else; those of the rule are added."""
    quiet: Sequence[str]
    """Times when nothing fires."""
    interval: str = "1m"


@dataclass(frozen=True, kw_only=True)
class RecordingCase:
    """Samples, and what a rule makes of them."""

    record: str
    says: str
    series: Mapping[str, str]
    at: str
    gives: Mapping[str, float]
    """Value by labels, written `{a="b"}`."""
    interval: str = "1m"


Case = AlertCase | RecordingCase
_END = "."
"""Ends a case's name in promtool's output: one name may be the beginning of another."""
_STEP = 2**-20


def series(name: str, labels: Labels) -> str:
    """Return a series in PromQL's notation."""
    pairs = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}"


def name_of(case: Case) -> str:
    """Return the name of a case: the rule's and what it is about."""
    return f"{rule_of(case)}: {case.says}"


def rule_of(case: Case) -> str:
    """Return the name of the alert or the recording."""
    return case.alert if isinstance(case, AlertCase) else case.record


def area_named(name: str, thresholds: AlertThresholds = THRESHOLDS) -> Area:
    """Return the rules of an area."""
    return next(area for area in areas(thresholds) if area.name == name)


def alert_named(name: str, thresholds: AlertThresholds = THRESHOLDS) -> Alert:
    """Return an alert."""
    return next(alert for area in areas(thresholds) for alert in area.alerts if alert.name == name)


def rule_file(path: Path, thresholds: AlertThresholds, names: Iterable[str], rule: str) -> Path:
    """Write the recordings of some areas and the alert of that name, if it is one.

    Alerts are without annotations, which promtool would require in every case.
    """
    groups = []
    for area in (area_named(name, thresholds) for name in names):
        alerts = [each.manifest(None) for each in area.alerts if each.name == rule]
        for each in alerts:
            del each["annotations"]
        groups.append({"name": area.name, "rules": [*(each.manifest() for each in area.recordings), *alerts]})
    path.write_text(json.dumps({"groups": groups}))
    return path


def run_cases(
    promtool: Path, folder: Path, area: str, cases: Sequence[Case], thresholds: AlertThresholds = THRESHOLDS
) -> dict[str, str]:
    """Run all cases of an area at once; return what promtool says of those that failed, by name."""
    # What pods belong to is what the rules of other areas are joined with.
    names = tuple(dict.fromkeys(("pods", area)))
    files: list[Path] = []
    # promtool evaluates all rules of a file at each step of each case: a quarter of its time for alerts not looked at.
    for interval, rule in sorted({(case.interval, rule_of(case)) for case in cases}):
        rules = rule_file(folder / f"rules-{len(files)}.yml", thresholds, names, rule)
        of_rule = [case for case in cases if (case.interval, rule_of(case)) == (interval, rule)]
        files.append(folder / f"tests-{len(files)}.yml")
        tests = {
            "rule_files": [rules.name],
            # Groups without an order of their own are evaluated in any: joins would be a step late, or not.
            "group_eval_order": list(names),
            "evaluation_interval": interval,
            "tests": [_written(case, thresholds) for case in of_rule],
        }
        files[-1].write_text(json.dumps(tests))
    done = subprocess.run([promtool, "test", "rules", *files], capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    failures = {name_of(case): text for case in cases if (text := _about(name_of(case), output))}
    assert done.returncode == 0 or failures, output
    return failures


def _about(name: str, output: str) -> str:
    """Return the parts of promtool's output that are about a case."""
    parts = re.split(r"^\s*(?=name: |expr: )", output, flags=re.MULTILINE)
    return "\n".join(part for part in parts if f"{name}{_END}" in part)


def _written(case: Case, thresholds: AlertThresholds) -> dict[str, object]:
    samples = [{"series": name, "values": values} for name, values in case.series.items()]
    test: dict[str, object] = {"name": name_of(case) + _END, "interval": case.interval, "input_series": samples}
    if isinstance(case, RecordingCase):
        # Exact sums of binary fractions: promtool compares every digit.
        expr = f"round({case.record}, {_STEP}) # {name_of(case)}{_END}"
        given = [{"labels": labels, "value": round(value / _STEP) * _STEP} for labels, value in case.gives.items()]
        return {**test, "promql_expr_test": [{"expr": expr, "eval_time": case.at, "exp_samples": given}]}
    alert = alert_named(case.alert, thresholds)
    added = {"severity": alert.severity, **alert.labels}
    expected = {**dict.fromkeys(case.quiet, ()), **case.fires}
    return {
        **test,
        "alert_rule_test": [
            {
                "alertname": case.alert,
                "eval_time": time,
                "exp_alerts": [{"exp_labels": {**labels, **added}} for labels in firing],
            }
            for time, firing in expected.items()
        ],
    }
