"""Defaults of the pages: time range, job and service."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards.queries import filled
from tools.operations.dashboards.prometheus import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.operations.dashboards.prometheus import Prometheus

LONGEST_LOOK_BACK_SECONDS = 86400
"""Time range within which the last training run is searched."""
_SHORTEST_SECONDS = 900
_MARGIN_SECONDS = 60
_MARGIN_SHARE = 0.1
"""Share of a run's length: the margins of a short run are shorter, or its curves would be a corner of the page."""
_SEEN_EVERY_SECONDS = 15
_POINTS = 240
# Short, or a Prometheus that has just started would seem to scrape rarely.
_COUNTED_SECONDS = 60
_LAST_STEP = "athanor_training_last_step_timestamp_seconds"
_RUN_LABELS = ("namespace", "workload", "run")
_BY_RUN = f"by ({', '.join(_RUN_LABELS)})"
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.*),\s*(?P<label>\w+)\)")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a training job."""

    namespace: str
    workload: str
    started: float
    """Start of its first process, Unix time in seconds."""
    ended: float
    """Its latest sample, Unix time in seconds; of a job that still runs, seconds ago."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Values of a dashboard's variables."""

    values: Mapping[str, str]
    """Value by name; empty where there is none to choose."""
    others: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """Other choices, by name."""


def last_run(
    prometheus: Prometheus, now: float, *, namespace: str | None = None, workload: str | None = None
) -> Run | None:
    """Return the run with the latest step within a day, None without any.

    Args:
        prometheus: Has the data.
        now: Unix time in seconds.
        namespace: Namespace of the job. Default: any.
        workload: Name of the job. Default: any.

    Raises:
        PrometheusError, QueryError: there is no answer.
    """
    given = {name: value for name, value in (("namespace", namespace), ("workload", workload)) if value}
    latest = prometheus.at(f"topk(1, max {_BY_RUN} (max_over_time({_last_step(given)})))", now)
    if not latest:
        return None
    labels = dict(latest[0].labels)
    run = _last_step({name: labels.get(name, "") for name in _RUN_LABELS})
    # The gauge starts at the time at which the process started. After the last step come the evaluation and the
    # export: the run lasts as long as it has samples.
    samples = f"timestamp({run.partition('[')[0]})[{LONGEST_LOOK_BACK_SECONDS}s:{_SEEN_EVERY_SECONDS}s]"
    started = prometheus.at(f"min {_BY_RUN} (min_over_time({run}))", now)
    ended = prometheus.at(f"max {_BY_RUN} (max_over_time({samples}))", now)
    return Run(
        namespace=labels.get("namespace", ""),
        workload=labels.get("workload", ""),
        started=started[0].points[0][1],
        # A run shorter than the subquery's step may fall between two of its points.
        ended=max(series.points[0][1] for series in [*ended, *latest]),
    )


def _last_step(labels: Mapping[str, str]) -> str:
    """Return the selector of the times of the last step within a day, of the series with these labels."""
    matchers = ", ".join(f'{name}="${name}"' for name in labels)
    return filled(f"{_LAST_STEP}{{{matchers}}}[{LONGEST_LOOK_BACK_SECONDS}s]", labels)


def window(minutes: int | None, run: Run | None, scrape_seconds: float, now: float) -> Window:
    """Return the time range of the platform's dashboards, until now.

    Args:
        minutes: Length; None: long enough to show the last run.
        run: The last run; None without any.
        scrape_seconds: Interval at which Prometheus scrapes its targets.
        now: Unix time in seconds.
    """
    since_run = now - run.started + _MARGIN_SECONDS if run else 0.0
    seconds = minutes * 60 if minutes else max(_SHORTEST_SECONDS, since_run)
    return _window(now - seconds, now, scrape_seconds)


def run_window(run: Run, scrape_seconds: float, now: float) -> Window:
    """Return the time range of a job's dashboard: the run's own, with a margin at both ends, until now at most.

    Args:
        run: The run.
        scrape_seconds: Interval at which Prometheus scrapes its targets.
        now: Unix time in seconds.
    """
    margin = min(_MARGIN_SECONDS, max(2 * scrape_seconds, _MARGIN_SHARE * (run.ended - run.started)))
    return _window(run.started - margin, min(now, run.ended + margin), scrape_seconds)


def _window(start: float, end: float, scrape_seconds: float) -> Window:
    return Window(start=start, end=end, step=max(1, round(scrape_seconds), round((end - start) / _POINTS)))


def scrape_seconds(prometheus: Prometheus, now: float) -> float:
    """Return the interval at which Prometheus scrapes its targets, from how many samples there are.

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
    given: Mapping[str, str],
    preferred: Mapping[str, str],
    window: Window,
) -> Chosen:
    """Choose a value for each variable of a dashboard, in their order: later ones depend on earlier ones.

    Args:
        prometheus: Knows which values there are.
        board: Grafana's JSON.
        given: Values that the user gave, by name; used even if there is no such value.
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
            values[name] = given.get(name, variable["query"])
        elif variable["type"] == "query":
            there = _there(prometheus, variable["query"], values, window)
            first = preferred[name] if preferred.get(name) in there else next(iter(there), "")
            values[name] = given.get(name, first)
            others[name] = [value for value in there if value != values[name]]
    return Chosen(values=values, others=others)


def _there(prometheus: Prometheus, query: str, values: Mapping[str, str], window: Window) -> list[str]:
    match = _LABEL_VALUES.fullmatch(query)
    if match is None:
        raise ValueError(
            f"query of a variable {query!r}: is not of the form label_values(series, label). Fix: write it in that form"
        )
    series, label = filled(match["series"], values), match["label"]
    known = prometheus.at(f"group by ({label}) (last_over_time({series}[{window.seconds}s]))", window.end)
    return sorted(each.labels[label] for each in known if label in each.labels)
