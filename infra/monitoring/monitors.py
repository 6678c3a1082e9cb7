"""Prometheus' scrape targets: PodMonitors and ServiceMonitors, and the labels of their series.

Every series of a workload's pod has namespace, pod, node, workload, kind, role and queue, and `job` names the kind of
target that it comes from. Sources: prometheus-operator, Documentation/api-reference; DCGM exporter, README.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from infra.gpu import nodes as gpu
from infra.gpu.dcgm_exporter import DCGM_EXPORTER
from infra.kubernetes.parts import PART_OF
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import (
    ALERTMANAGER,
    KUBE_STATE_METRICS,
    KUBELET_NAMESPACE,
    KUBELET_SERVICE,
    NAMESPACE,
    NODE_EXPORTER,
    NODE_NAMESPACE,
    OPERATOR,
    PROMETHEUS,
    VICTORIA_LOGS,
    VLAGENT,
    WEB_PORT_NAME,
)
from infra.monitoring.gateway_targets import gateway_targets
from infra.monitoring.target_parts import constant, copied, copied_pod_label, kept, platform_pods, without
from infra.volcano import CONTROLLERS, SCHEDULER
from infra.volcano import NAMESPACE as VOLCANO_NAMESPACE
from infra.workload_labels import JOB_LABEL, KIND_LABEL, QUEUE_LABEL, ROLE_LABEL, SERVICE_LABEL, TRACK_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

Kind = Literal["operator", "existing", "managed", "none"]
"""See MonitoringSettings.kind."""

TRAINING = "training"
"""Value of Prometheus's label `job` for pods of jobs."""
SERVING = "serving"
"""The same for pods of services."""
RANK_PORTS = f"{METRICS_PORT_NAME}(-[0-9]{{1,2}})?"
"""Names of the ports of a pod's ranks: metrics, metrics-1, metrics-2 … Each is a target: not as many as a pod likes."""
# Programs of users may emit anything: one that makes a series per sample, or unbounded labels, must fail alone, not
# fill Prometheus. A target beyond any of these limits is shown as down.
_WORKLOAD_LIMITS = {
    "sampleLimit": 10_000,
    # Some 800 bytes for each of them.
    "bodySizeLimit": "8MiB",
    # With the dozen that the platform adds.
    "labelLimit": 48,
    "labelNameLengthLimit": 128,
    # A pod's name, the longest that the platform adds, has 253 characters.
    "labelValueLengthLimit": 512,
}
_SHORTEST_INTERVALS_SECONDS = {
    # it writes megabytes at each scrape
    "apiserver": 30,
    # the kubelet looks at volumes every minute, and at the containers' counters every 10 to 20 seconds
    "kubelet": 30,
    "cadvisor": 10,
    # gauges, and counters whose increase over five minutes counts
    **dict.fromkeys((PROMETHEUS, ALERTMANAGER, VLAGENT), 30),
}
"""Targets that need not be read more often than this: more samples would say no more, and cost CPU on both sides."""
_LONGEST_SCRAPE_SECONDS = 30
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
_CLUSTER_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


@dataclass(frozen=True, kw_only=True)
class MonitorsArgs:
    """The targets, and who reads them."""

    kind: Kind
    """With `operator` all targets; with `existing` and `managed` only those that nobody but this platform knows: the
    stack that is there reads kubelets, nodes, the API server and itself; with `none` nothing."""
    workloads_namespace: str
    """Namespace of jobs and services."""
    monitoring_namespace: str = NAMESPACE
    """Namespace of the monitors."""
    selector_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further labels of the monitors, by which a Prometheus selects them."""
    interval_seconds: int = 30
    """Interval at which a target is scraped, unless it has a longer interval of its own."""
    volcano: bool = True
    """Whether this platform installed Volcano."""
    dcgm_exporter: bool = False
    """Whether it installed the exporter of GPU metrics."""
    victoria_logs: bool = False
    """Whether it runs VictoriaLogs and vlagent."""
    gateway: bool = False
    """Whether it has a gateway."""


def monitor_manifests(args: MonitorsArgs) -> dict[str, Manifest]:
    """Return all monitors by logical name, which is the value of the label `job` that their series get."""
    if args.kind == "none":
        return {}
    specs = {
        TRAINING: _workload_pods(args.workloads_namespace, JOB_LABEL, TRAINING),
        SERVING: _workload_pods(args.workloads_namespace, SERVICE_LABEL, SERVING),
    }
    if args.volcano:
        specs |= {name: platform_pods(name, VOLCANO_NAMESPACE) for name in (SCHEDULER, CONTROLLERS)}
    if args.dcgm_exporter:
        specs[DCGM_EXPORTER] = _gpu_pods()
    if args.gateway:
        specs |= gateway_targets()
    if args.victoria_logs:
        specs |= {VICTORIA_LOGS: platform_pods(VICTORIA_LOGS), VLAGENT: platform_pods(VLAGENT, NODE_NAMESPACE)}
    if args.kind == "operator":
        specs |= _cluster_targets()
    # Prometheus selects all monitors and rules of its namespace and no others: anyone who writes a monitor can send its
    # token anywhere.
    metadata_labels = {**PART_OF, **args.selector_labels}
    return {
        name: {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor" if "endpoints" in spec else "PodMonitor",
            "metadata": {"name": f"athanor-{name}", "namespace": args.monitoring_namespace, "labels": metadata_labels},
            "spec": _timed(spec, _interval(name, args.interval_seconds)),
        }
        for name, spec in specs.items()
    }


def _interval(name: str, asked: int) -> int:
    return max(asked, _SHORTEST_INTERVALS_SECONDS.get(name, 0))


def _timed(spec: Manifest, seconds: int) -> Manifest:
    """Return the spec with the interval in each of its endpoints."""
    # By default a scrape may take ten seconds: too little for the objects of a thousand nodes.
    timeout = min(seconds, _LONGEST_SCRAPE_SECONDS)
    times = {"interval": f"{seconds}s", "scrapeTimeout": f"{timeout}s"}
    key = "endpoints" if "endpoints" in spec else "podMetricsEndpoints"
    return {**spec, key: [{**endpoint, **times} for endpoint in spec[key]]}


def _workload_pods(namespace: str, label: str, job: str) -> Manifest:
    """Return the targets of jobs or of services: every rank's own port."""
    kind = copied_pod_label(KIND_LABEL, "kind") if label == JOB_LABEL else constant("kind", "service")
    relabelings = [
        # No `port`: one endpoint for each of many names would let Prometheus look at every pod so many times.
        {"action": "keep", "sourceLabels": ["__meta_kubernetes_pod_container_port_name"], "regex": RANK_PORTS},
        constant("job", job),
        copied("__meta_kubernetes_pod_node_name", "node"),
        copied_pod_label(label, "workload"),
        kind,
        copied_pod_label(ROLE_LABEL, "role"),
        copied_pod_label(QUEUE_LABEL, "queue"),
        copied_pod_label(TRACK_LABEL, "track"),
    ]
    return {
        "namespaceSelector": {"matchNames": [namespace]},
        "selector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        **_WORKLOAD_LIMITS,
        # A redirect would have Prometheus ask, in its own name, what the pod itself may not reach.
        "podMetricsEndpoints": [{"relabelings": relabelings, "followRedirects": False}],
    }


def _gpu_pods() -> Manifest:
    """Return the exporters of GPU metrics.

    A sample's namespace, pod and container are those that the GPU is allocated to. The exporter's own would be in
    for them on a GPU that nobody has, and turn it into one that is in use.
    """
    relabelings = [copied("__meta_kubernetes_pod_node_name", "node"), without("namespace", "pod")]
    # The same as `node`, under a name that depends on the exporter's version.
    names_of_the_node = without("Hostname", "hostname")
    return platform_pods(DCGM_EXPORTER, gpu.NAMESPACE, relabelings=relabelings, metric_relabelings=[names_of_the_node])


def _cluster_targets() -> dict[str, Manifest]:
    """Return the targets that every monitoring of a cluster reads, and the parts of ours."""
    about_other_objects = without("namespace", "pod")
    of_node = copied("__meta_kubernetes_pod_node_name", "node")
    # The share of time that a core is idle says how busy it is; every other mode would be a series per core again.
    idle_only = {
        "action": "drop",
        "sourceLabels": ["__name__", "mode"],
        "regex": "node_cpu_seconds_total;(user|nice|system|iowait|irq|softirq|steal)",
    }
    return {
        "kubelet": _kubelets("kubelet", "/metrics"),
        "cadvisor": _kubelets("cadvisor", "/metrics/cadvisor", _containers_only()),
        "apiserver": _api_server(),
        KUBE_STATE_METRICS: platform_pods(KUBE_STATE_METRICS, relabelings=[about_other_objects]),
        NODE_EXPORTER: platform_pods(
            NODE_EXPORTER, NODE_NAMESPACE, relabelings=[of_node], metric_relabelings=[idle_only]
        ),
        PROMETHEUS: platform_pods(PROMETHEUS, port=WEB_PORT_NAME),
        ALERTMANAGER: platform_pods(ALERTMANAGER, port=WEB_PORT_NAME),
        OPERATOR: platform_pods(OPERATOR),
    }


def _kubelets(job: str, path: str, metric_relabelings: Sequence[Manifest] = ()) -> Manifest:
    """Return a path of all kubelets; `node` is set by the operator, from the Service's endpoints."""
    endpoint = {
        "port": "https-metrics",
        "scheme": "https",
        "path": path,
        "bearerTokenFile": _TOKEN,
        # A kubelet's certificate is signed by itself unless its cluster was set up to sign it, and ACK's are not. What
        # a false kubelet could get is a token that reads metrics.
        "tlsConfig": {"insecureSkipVerify": True},
        "relabelings": [constant("job", job), without("namespace", "service", "endpoint")],
        "metricRelabelings": [kept(job), *metric_relabelings],
    }
    return {
        "namespaceSelector": {"matchNames": [KUBELET_NAMESPACE]},
        "selector": {"matchLabels": {"app.kubernetes.io/name": KUBELET_SERVICE}},
        "endpoints": [endpoint],
    }


def _containers_only() -> list[Manifest]:
    """Return the rules that drop sums counted twice: of a pod's containers, of systemd's slices, of the node."""
    return [
        {"action": "keep", "sourceLabels": ["pod"], "regex": ".+"},
        # The network belongs to the pod as a whole, everything else to a container.
        {
            "action": "drop",
            "sourceLabels": ["__name__", "container"],
            "regex": "container_(cpu|memory|fs|oom)_.*;(|POD)",
        },
        without("name", "image"),
    ]


def _api_server() -> Manifest:
    endpoint = {
        "port": "https",
        "scheme": "https",
        "bearerTokenFile": _TOKEN,
        "tlsConfig": {"caFile": _CLUSTER_CA, "serverName": "kubernetes"},
        "relabelings": [constant("job", "apiserver"), without("namespace", "service", "endpoint")],
        "metricRelabelings": [kept("apiserver")],
    }
    return {
        "namespaceSelector": {"matchNames": ["default"]},
        "selector": {"matchLabels": {"component": "apiserver", "provider": "kubernetes"}},
        "endpoints": [endpoint],
    }
