"""What Prometheus reads, and which labels its series get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.monitors import SERVING, TRAINING, MonitorsArgs, monitor_manifests
from tests.tables import each_row
from tests.unit.infra.monitoring.relabeling import stored

if TYPE_CHECKING:
    from infra.manifests import Manifest

EVERYTHING = MonitorsArgs(
    kind="operator", workloads_namespace="team", dcgm_exporter=True, victoria_logs=True, gateway=True
)


def everything() -> dict[str, Manifest]:
    return monitor_manifests(EVERYTHING)


def endpoint_of(manifest: Manifest) -> dict[str, Any]:
    (endpoint,) = manifest["spec"].get("endpoints") or manifest["spec"]["podMetricsEndpoints"]
    return endpoint


def pod_target(port: str, **labels: str) -> dict[str, str]:
    """Return what Prometheus knows of a pod's port, after the operator's own rules."""
    return {
        "__meta_kubernetes_pod_container_port_name": port,
        "__meta_kubernetes_pod_node_name": "node-1",
        "__address__": "10.0.0.7:8002",
        "instance": "10.0.0.7:8002",
        "namespace": "team",
        "pod": "train-1a2b3c4d-worker-0",
        "container": "worker",
        "endpoint": port,
        **{f"__meta_kubernetes_pod_label_{name}": text for name, text in labels.items()},
    }


def job_pod(port: str) -> dict[str, str]:
    return pod_target(
        port,
        athanor_dev_job="train",
        athanor_dev_kind="pytorch",
        athanor_dev_role="worker",
        volcano_sh_queue_name="research",
    )


def test_a_rank_is_known_by_its_workload() -> None:
    sample = {"__name__": "athanor_training_loss", "run": "train-1a2b3c4d", "rank": "3"}
    series = stored(everything()[TRAINING], job_pod("metrics-1"), sample)
    assert series is not None
    of_the_job = {"workload": "train", "kind": "pytorch", "role": "worker", "queue": "research", "rank": "3"}
    of_the_pod = {"node": "node-1", "namespace": "team", "pod": "train-1a2b3c4d-worker-0"}
    assert series.items() >= {"job": "training", **of_the_job, **of_the_pod}.items()
    assert "track" not in series


@each_row(
    ("port", "read"),
    [("metrics", True), ("metrics-15", True), ("metrics-100", False), ("rendezvous", False), ("", False)],
)
def test_ranks_are_found_by_the_names_of_their_ports(port: str, read: bool) -> None:
    assert (stored(everything()[TRAINING], job_pod(port), {"__name__": "m"}) is not None) == read


def test_a_service_is_a_workload_of_its_own_kind() -> None:
    target = pod_target("metrics", athanor_dev_service="digits", athanor_dev_track="canary")
    series = stored(everything()[SERVING], target, {"__name__": "nv_inference_count", "model": "digits"})
    assert series is not None
    expected = {"job": "serving", "workload": "digits", "kind": "service", "track": "canary"}
    assert series.items() >= expected.items()


def test_a_gpu_belongs_to_the_pod_that_has_it() -> None:
    target = {**pod_target("metrics"), "namespace": "gpu-system", "pod": "dcgm-exporter-x"}
    sample = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "namespace": "team", "pod": "w-0", "Hostname": "node-1"}
    series = stored(everything()["dcgm-exporter"], target, sample)
    assert series is not None
    assert (series["namespace"], series["pod"], series["node"], series["gpu"]) == ("team", "w-0", "node-1", "0")
    assert not series.keys() & {"Hostname", "exported_pod", "exported_namespace"}


def test_a_gpu_that_nobody_has_is_not_the_exporters() -> None:
    target = {**pod_target("metrics"), "namespace": "gpu-system", "pod": "dcgm-exporter-x"}
    sample = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "hostname": "node-1"}
    series = stored(everything()["dcgm-exporter"], target, sample)
    assert series is not None
    assert not series.keys() & {"namespace", "pod", "container", "hostname"}


def test_objects_keep_their_own_names() -> None:
    target = {**pod_target("metrics"), "namespace": "monitoring", "pod": "kube-state-metrics-x"}
    node = stored(everything()["kube-state-metrics"], target, {"__name__": "kube_node_labels", "node": "n"})
    pod = stored(
        everything()["kube-state-metrics"], target, {"__name__": "kube_pod_info", "namespace": "team", "pod": "w-0"}
    )
    assert node is not None
    assert pod is not None
    assert (node["node"], node.get("pod"), node.get("namespace")) == ("n", None, None)
    assert (pod["pod"], pod["namespace"]) == ("w-0", "team")


KUBELET = {"namespace": "kube-system", "service": "kubelet", "endpoint": "https-metrics", "node": "n", "instance": "i"}


@each_row(
    ("sample", "kept"),
    [
        ({"__name__": "container_cpu_usage_seconds_total", "pod": "w-0", "container": "worker"}, True),
        ({"__name__": "container_cpu_usage_seconds_total", "pod": "w-0"}, False),
        ({"__name__": "container_cpu_usage_seconds_total", "pod": "w-0", "container": "POD"}, False),
        ({"__name__": "container_cpu_usage_seconds_total"}, False),
        ({"__name__": "container_network_receive_bytes_total", "pod": "w-0"}, True),
        ({"__name__": "container_network_receive_bytes_total", "interface": "eth0"}, False),
        ({"__name__": "container_tasks_state", "pod": "w-0", "container": "worker"}, False),
    ],
)
def test_no_container_is_counted_twice(sample: dict[str, str], kept: bool) -> None:
    assert (stored(everything()["cadvisor"], KUBELET, {**sample, "namespace": "team"}) is not None) == kept


def test_a_volume_belongs_to_its_claims_namespace() -> None:
    sample = {"__name__": "kubelet_volume_stats_used_bytes", "namespace": "team", "persistentvolumeclaim": "data"}
    series = stored(everything()["kubelet"], KUBELET, sample)
    assert series is not None
    assert (series["namespace"], series["node"], series["job"]) == ("team", "n", "kubelet")


@each_row("job", sorted(KEPT_METRICS))
def test_every_target_stores_what_is_kept_and_nothing_else(job: str) -> None:
    rules = endpoint_of(everything()[job])["metricRelabelings"]
    (keep,) = (rule for rule in rules if rule["action"] == "keep" and rule["sourceLabels"] == ["__name__"])
    assert keep["regex"].split("|") == list(KEPT_METRICS[job])


def test_what_is_read_is_what_the_name_says() -> None:
    for name, manifest in everything().items():
        assert {"targetLabel": "job", "replacement": name} in endpoint_of(manifest)["relabelings"]


def test_every_kind_but_the_users_programs_keeps_a_list() -> None:
    assert set(everything()) == {TRAINING, SERVING, *KEPT_METRICS}


def test_a_stack_that_is_there_reads_the_cluster_itself() -> None:
    args = MonitorsArgs(
        kind="existing",
        workloads_namespace="team",
        monitoring_namespace="observability",
        selector_labels={"release": "kps"},
        victoria_logs=True,
    )
    monitors = monitor_manifests(args)
    assert set(monitors) == {
        "training", "serving", "volcano-scheduler", "volcano-controllers", "victoria-logs", "vlagent",
    }  # fmt: skip
    for manifest in monitors.values():
        assert manifest["metadata"]["namespace"] == "observability"
        assert manifest["metadata"]["labels"]["release"] == "kps"


def intervals(monitors: dict[str, Manifest]) -> dict[str, int]:
    """Return the seconds between two scrapes by the monitor's name."""
    return {name: int(endpoint_of(each)["interval"].removesuffix("s")) for name, each in monitors.items()}


def test_nothing_is_read_without_monitoring() -> None:
    assert monitor_manifests(MonitorsArgs(kind="none", workloads_namespace="team")) == {}


def test_a_short_interval_is_for_what_changes_as_quickly() -> None:
    args = MonitorsArgs(kind="operator", workloads_namespace="team", interval_seconds=5, victoria_logs=True)
    monitors = monitor_manifests(args)
    longer = {name: interval for name, interval in intervals(monitors).items() if interval != 5}
    assert longer == {
        "apiserver": 30, "kubelet": 30, "cadvisor": 10, "prometheus": 30, "alertmanager": 30, "vlagent": 30,
    }  # fmt: skip
    for manifest in monitors.values():
        endpoint = endpoint_of(manifest)
        # Prometheus refuses a whole configuration with a timeout beyond the interval
        assert int(endpoint["scrapeTimeout"][:-1]) <= int(endpoint["interval"][:-1])


def test_a_long_interval_is_for_everything() -> None:
    monitors = monitor_manifests(MonitorsArgs(kind="operator", workloads_namespace="team", interval_seconds=60))
    assert set(intervals(monitors).values()) == {60}


def test_no_certificate_but_the_kubelets_is_taken_on_trust() -> None:
    trusted = {
        name for name, manifest in everything().items()
        if endpoint_of(manifest).get("tlsConfig", {}).get("insecureSkipVerify")
    }  # fmt: skip
    assert trusted == {"kubelet", "cadvisor"}


@each_row("job", [TRAINING, SERVING])
def test_a_users_program_can_fill_nothing_but_its_own_share(job: str) -> None:
    spec = everything()[job]["spec"]
    limits = ("sampleLimit", "bodySizeLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit")
    assert [limit for limit in limits if not spec[limit]] == []


@each_row("job", [TRAINING, SERVING])
def test_what_the_platform_adds_is_within_the_limits(job: str) -> None:
    spec = everything()[job]["spec"]
    added = {rule.get("targetLabel", "") for rule in endpoint_of(everything()[job])["relabelings"]}
    own = {"instance", "namespace", "pod", "container", "endpoint", "__name__"}
    assert len(added | own) < spec["labelLimit"] / 2
    assert max(map(len, added | own)) < spec["labelNameLengthLimit"]
    assert spec["labelValueLengthLimit"] > 253, "a pod's name may be so long"


@each_row("job", [TRAINING, SERVING])
def test_a_users_program_sends_prometheus_nowhere_else(job: str) -> None:
    assert endpoint_of(everything()[job])["followRedirects"] is False
