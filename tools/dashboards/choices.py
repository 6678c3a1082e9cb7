"""From when to when, and for which job or service: what the pages show where nobody says it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards.queries import filled
from tools.dashboards.prometheus import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.dashboards.prometheus import Prometheus

LONGEST_LOOK_BACK_SECONDS = 86400
"""How far back the last training run is looked for."""
_SHORTEST_SECONDS = 900
_MARGIN_SECONDS = 60
_POINTS = 240
# Short, or a Prometheus that has just started would seem to read seldom.
_COUNTED_SECONDS = 60
_LAST_STEP = "athanor_training_last_step_timestamp_seconds"
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.*),\s*(?P<label>\w+)\)")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a training job."""

    namespace: str
    workload: str
    started: float
    """Unix time in seconds."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Values of a dashboard's variables."""

    values: Mapping[str, str]
    """Value by name; empty where there is none to choose."""
    others: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """What could be chosen instead, by name."""


def last_run(prometheus: Prometheus, now: float) -> Run | None:
    """Return the run that made the last step within a day, None without any.

    Raises:
        PrometheusError, QueryError: there is no answer.
    """
    by = "by (namespace, workload, run)"
    within = f"{_LAST_STEP}[{LONGEST_LOOK_BACK_SECONDS}s]"
    ended = prometheus.at(f"topk(1, max {by} (max_over_time({within})))", now)
    if not ended:
        return None
    run = dict(ended[0].labels)
    # The gauge begins with when the process began.
    began = prometheus.at(f"min {by} (min_over_time({within}))", now)
    started = next(series.points[0][1] for series in began if dict(series.labels) == run)
    return Run(namespace=run.get("namespace", ""), workload=run.get("workload", ""), started=started)


def window(minutes: int | None, run: Run | None, scrape_seconds: float, now: float) -> Window:
    """Return the time to show, until now.

    Args:
        minutes: How long; None: as long as the last run needs to be seen.
        run: The last run; None without any.
        scrape_seconds: How often Prometheus reads its targets.
        now: Unix time in seconds.
    """
    since_run = now - run.started + _MARGIN_SECONDS if run else 0.0
    seconds = minutes * 60 if minutes else max(_SHORTEST_SECONDS, since_run)
    step = max(1, round(scrape_seconds), round(seconds / _POINTS))
    return Window(start=now - seconds, end=now, step=step)


def scrape_seconds(prometheus: Prometheus, now: float) -> float:
    """Return how often Prometheus reads its targets, from how many samples there are.

    Raises:
        PrometheusError, QueryError: there is no answer.
    """
    counted = prometheus.at(f"max(count_over_time(up[{_COUNTED_SECONDS}s]))", now)
    return _COUNTED_SECONDS / counted[0].points[0][1] if counted else float(_COUNTED_SECONDS)


def built_in(window: Window, scrape_seconds: float) -> dict[str, str]:
    """Return the variables that Grafana itself sets; Grafana, "Global variables"."""
    rate_interval = max(window.step + scrape_seconds, 4 * scrape_seconds)
    return {"__range": f"{window.seconds}s", "__rate_interval": f"{round(rate_interval)}s"}


def choose(
    prometheus: Prometheus,
    board: Mapping[str, Any],
    wanted: Mapping[str, str],
    preferred: Mapping[str, str],
    window: Window,
) -> Chosen:
    """Choose a value for each variable of a dashboard, in their order: later ones depend on earlier ones.

    Args:
        prometheus: Knows which values there are.
        board: Grafana's JSON.
        wanted: What was said, by name; it counts even if there is no such value.
        preferred: What to take if it is among the values, by name.
        window: When there must have been such a series.

    Raises:
        PrometheusError, QueryError: there is no answer.
    """
    values: dict[str, str] = {}
    others: dict[str, Sequence[str]] = {}
    for variable in board["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "textbox":
            values[name] = wanted.get(name, variable["query"])
        elif variable["type"] == "query":
            there = _there(prometheus, variable["query"], values, window)
            first = preferred[name] if preferred.get(name) in there else next(iter(there), "")
            values[name] = wanted.get(name, first)
            others[name] = [value for value in there if value != values[name]]
    return Chosen(values=values, others=others)


def _there(prometheus: Prometheus, query: str, values: Mapping[str, str], window: Window) -> list[str]:
    found = _LABEL_VALUES.fullmatch(query)
    if found is None:
        raise ValueError(f"query of a variable {query!r}: is no label_values(series, label). Fix: write it as one")
    series, label = filled(found["series"], values), found["label"]
    known = prometheus.at(f"group by ({label}) (last_over_time({series}[{window.seconds}s]))", window.end)
    return sorted(each.labels[label] for each in known if label in each.labels)
