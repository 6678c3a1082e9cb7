"""What monitoring costs: series of a GPU, a rank, a pod, and Prometheus itself with a thousand nodes of 8 GPUs."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group

from benchmarks.metrics_server import metrics_server
from benchmarks.prometheus_process import RULES_FILE, running
from benchmarks.simulated_targets import (
    GPUS_PER_NODE,
    NAMESPACE,
    dcgm_text,
    job_name,
    node_name,
    objects_text,
    pod_name,
    rank_text,
    sample_count,
    serving_text,
)
from infra.gpu.dcgm_exporter import DCGM_EXPORTER
from infra.monitoring import KUBE_STATE_METRICS
from infra.monitoring.monitors import TRAINING, MonitorsArgs, monitor_manifests
from infra.monitoring.rules import rule_manifests
from infra.settings.monitoring import MonitoringSettings
from tools.tables import table
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from benchmarks.prometheus_process import Prometheus
    from tools.progress import Progress

NODES = 1000
TRAINING_NODES = 100
"""Nodes whose pods are read too, every rank of them: a tenth shows what a rank costs."""
INTERVALS = 5
_SETTINGS = MonitoringSettings()
_FIELDS = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
"""How Prometheus itself spells the operator's fields."""

Labels = dict[str, str]


def measure(report: Progress) -> Group:
    """Return two tables. Needs no cluster: targets are simulated, Prometheus, its rules and relabelings are real."""
    program = ensure(["prometheus"], report)["prometheus"]
    targets = {
        DCGM_EXPORTER: _exporters(),
        KUBE_STATE_METRICS: [{"__metrics_path__": "/objects", "instance": "objects"}],
    }
    observed: dict[str, Observed] = {}
    with metrics_server(_answer) as address, tempfile.TemporaryDirectory(prefix="athanor-bench-") as folder:
        ranks = _ranks()
        for name, more in {"GPUs and objects": {}, f"and {len(ranks)} training ranks": {TRAINING: ranks}}.items():
            report.detail(f"Prometheus reads {name} for {INTERVALS} intervals")
            configuration = _configuration(address, {**targets, **more})
            observed[name] = observe(program, Path(folder, name.replace(" ", "-")), configuration)
    title = f"{NODES} nodes with {GPUS_PER_NODE} GPUs, read every {_SETTINGS.scrape_interval_seconds} s"
    rows = [
        [name, *(each.formatted()[name] for each in observed.values())]
        for name in next(iter(observed.values())).formatted()
    ]
    return Group(_series_table(), table(title, ["", *observed], rows))


def _answer(path: str) -> str:
    kind, *numbers = path.strip("/").split("/")
    if kind == "dcgm":
        return dcgm_text(int(numbers[0]))
    if kind == "rank":
        return rank_text(int(numbers[0]), int(numbers[1]))
    return objects_text(NODES)


def _exporters() -> list[Labels]:
    return [
        {
            "__metrics_path__": f"/dcgm/{node}",
            "__meta_kubernetes_pod_node_name": node_name(node),
            "instance": f"10.0.{node // 256}.{node % 256}:9400",
            "namespace": "gpu-system",
            "pod": f"dcgm-exporter-{node:05d}",
            "container": DCGM_EXPORTER,
            "endpoint": "metrics",
        }
        for node in range(NODES)
    ]


def _ranks() -> list[Labels]:
    """Return the ranks of jobs, each with a port of its own."""
    return [
        {
            "__metrics_path__": f"/rank/{node}/{rank}",
            "__meta_kubernetes_pod_node_name": node_name(node),
            "__meta_kubernetes_pod_container_port_name": f"metrics-{rank}" if rank else "metrics",
            "__meta_kubernetes_pod_label_athanor_dev_job": job_name(node),
            "__meta_kubernetes_pod_label_athanor_dev_kind": "pytorch",
            "__meta_kubernetes_pod_label_athanor_dev_role": "worker",
            "__meta_kubernetes_pod_label_volcano_sh_queue_name": f"team-{node % 5}",
            "instance": f"10.1.{node // 256}.{node % 256}:{8002 + rank}",
            "namespace": NAMESPACE,
            "pod": pod_name(node),
            "container": "worker",
            "endpoint": f"metrics-{rank}" if rank else "metrics",
        }
        for node in range(TRAINING_NODES)
        for rank in range(GPUS_PER_NODE)
    ]


def _configuration(address: str, targets: Mapping[str, Sequence[Labels]]) -> dict[str, Any]:
    """Return Prometheus's configuration, with the relabelings of our own monitors."""
    args = MonitorsArgs(
        kind="operator",
        workloads_namespace=NAMESPACE,
        interval_seconds=_SETTINGS.scrape_interval_seconds,
        dcgm_exporter=True,
    )
    monitors = monitor_manifests(args)
    interval = f"{_SETTINGS.scrape_interval_seconds}s"
    return {
        "global": {"evaluation_interval": interval},
        "rule_files": [RULES_FILE],
        "scrape_configs": [
            _scrape_config(name, monitors[name]["spec"], address, labels) for name, labels in targets.items()
        ],
    }


def _scrape_config(name: str, spec: dict[str, Any], address: str, targets: Sequence[Labels]) -> dict[str, Any]:
    [endpoint] = spec["podMetricsEndpoints"]
    return {
        "job_name": name,
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["scrapeTimeout"],
        "sample_limit": spec.get("sampleLimit", 0),
        "relabel_configs": [_renamed(each) for each in endpoint.get("relabelings", [])],
        "metric_relabel_configs": [_renamed(each) for each in endpoint.get("metricRelabelings", [])],
        "static_configs": [{"targets": [address], "labels": labels} for labels in targets],
    }


def _renamed(relabeling: dict[str, Any]) -> dict[str, Any]:
    return {_FIELDS.get(key, key): value for key, value in relabeling.items()}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A Prometheus after some intervals."""

    targets: int
    series: float
    """In the head, those that rules made included."""
    recorded: float
    """That rules make at each evaluation, alerts included."""
    samples_per_second: float
    scrape_seconds: Mapping[str, tuple[float, float]]
    """Median and maximum by the value of `job`."""
    rules_seconds: float
    """One evaluation of all rule groups, one after the other."""
    cpus: float
    """Over the last intervals."""
    peak_bytes: float
    """Most resident memory so far."""

    def formatted(self) -> dict[str, str]:
        """Return a text for each figure by its name."""
        scrapes = {
            f"one scrape of {job}, median (most)": f"{1000 * median:.0f} ms ({1000 * most:.0f})"
            for job, (median, most) in self.scrape_seconds.items()
        }
        return {
            "targets": f"{self.targets:,}",
            "series": f"{self.series:,.0f}",
            "of these by rules, at each evaluation": f"{self.recorded:,.0f}",
            "samples per second": f"{self.samples_per_second:,.0f}",
            **{f"one scrape of {job}, median (most)": "" for job in (DCGM_EXPORTER, KUBE_STATE_METRICS, TRAINING)},
            **scrapes,
            "one evaluation of all rules": f"{self.rules_seconds:.2f} s",
            "CPU": f"{self.cpus:.2f} cores",
            "memory, most": f"{self.peak_bytes / 2**30:.2f} GiB",
            "memory per series": f"{self.peak_bytes / self.series / 1024:.1f} KiB",
        }


def observe(program: Path, folder: Path, configuration: dict[str, Any]) -> Observed:
    """Run a Prometheus for some intervals.

    Raises:
        RuntimeError: it ended, needs more than 6 GiB, could not read a target or could not evaluate a rule.
    """
    jobs = [each["job_name"] for each in configuration["scrape_configs"]]
    count = sum(len(each["static_configs"]) for each in configuration["scrape_configs"])
    with running(program, folder, configuration, _rules()) as prometheus:
        prometheus.wait_until(f"count(up) == {count}")
        prometheus.wait(_SETTINGS.scrape_interval_seconds * (INTERVALS - 2))
        begin, before = time.monotonic(), prometheus.metrics()
        prometheus.wait(_SETTINGS.scrape_interval_seconds * 2)
        seconds, after = time.monotonic() - begin, prometheus.metrics()
        rule_failures = after["prometheus_rule_evaluation_failures_total"]
        if wrong := prometheus.unreadable():
            raise prometheus.failed(f"could not read {len(wrong)} of {count} targets: {wrong[0]}")
        if rule_failures:
            raise prometheus.failed(f"failed at {rule_failures:.0f} evaluations of rules")
        return Observed(
            targets=count,
            series=after["prometheus_tsdb_head_series"],
            recorded=after["prometheus_rule_group_last_evaluation_samples"],
            samples_per_second=_growth("prometheus_tsdb_head_samples_appended_total", before, after) / seconds,
            scrape_seconds={job: _scrape_seconds(prometheus, job) for job in jobs},
            rules_seconds=after["prometheus_rule_group_last_duration_seconds"],
            cpus=_growth("process_cpu_seconds_total", before, after) / seconds,
            peak_bytes=prometheus.peak_bytes(),
        )


def _scrape_seconds(prometheus: Prometheus, job: str) -> tuple[float, float]:
    selected = f"scrape_duration_seconds{{job={json.dumps(job)}}}"
    [median], [most] = prometheus.values(f"quantile(0.5, {selected})"), prometheus.values(f"max({selected})")
    return median, most


def _growth(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return after[name] - before[name]


def _rules() -> dict[str, Any]:
    manifests = rule_manifests(_SETTINGS.thresholds, namespace=NAMESPACE, labels={}).values()
    return {"groups": [group for manifest in manifests for group in manifest["spec"]["groups"]]}


def _series_table() -> Table:
    """Return how many samples of each kind of thing are stored, apart from five of Prometheus's own per target."""
    objects = sample_count(objects_text(1))
    rows = {
        "a GPU (DCGM exporter)": sample_count(dcgm_text(0)) // GPUS_PER_NODE,
        "a rank of a training job, a target of its own": sample_count(rank_text(0, 0)),
        "a pod of a service with one model": sample_count(serving_text()),
        "a node and a pod of one container (kube-state-metrics, what is kept of it)": objects,
    }
    return table("Series of one", ["", "series"], [[name, str(number)] for name, number in rows.items()])
