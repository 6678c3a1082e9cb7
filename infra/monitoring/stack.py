"""The monitoring of a stack as a component: its parts, their namespace and their order.

Source: kube-state-metrics 2.20, docs/developer/cli-arguments.md and docs/metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.crds import read_crds
from infra.gateway import NAMESPACE as GATEWAY_NAMESPACE
from infra.gpu.nodes import NAMESPACE as GPU_NAMESPACE
from infra.images import KUBE_STATE_METRICS_IMAGE, platform_trainer_image
from infra.kubernetes.access import rule
from infra.kubernetes.pods import container_security, resources
from infra.machine import cache_folder
from infra.manifests import Manifest, declare_part, resource
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import (
    COMPONENT,
    KUBE_STATE_METRICS,
    KUBE_STATE_METRICS_OWN_PORT,
    KUBE_STATE_METRICS_PORT,
    KUBELET_NAMESPACE,
    NAMESPACE,
    NODE_NAMESPACE,
    PROMETHEUS,
    grafana,
    prometheus,
)
from infra.monitoring.alertmanager import alertmanager_manifests
from infra.monitoring.grafana import dashboard_manifests, grafana_manifests
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.logs import store as logs_store
from infra.monitoring.logs.manifests import LogArgs, log_manifests
from infra.monitoring.metrics_adapter import MetricsAdapterArgs, metrics_adapter_manifests
from infra.monitoring.monitors import MonitorsArgs, monitor_manifests
from infra.monitoring.node_exporter import node_exporter_manifests
from infra.monitoring.operator import kubelet_service_manifest, operator_manifests
from infra.monitoring.parts import account, api_client_pod, callers, deployment, grant, network_policy
from infra.monitoring.prometheus import PrometheusArgs, prometheus_manifests
from infra.monitoring.rules import rule_manifests
from infra.namespaces import PodSecurity, default_deny_manifest, namespace_manifest
from infra.node_labels import POOL_LABEL
from infra.settings.storage import DiskClass
from infra.storage import ClassVolumes, NodeFolders
from infra.versions import PROMETHEUS_OPERATOR
from infra.volcano import NAMESPACE as VOLCANO_NAMESPACE
from infra.workload_labels import JOB_LABEL, KIND_LABEL, QUEUE_LABEL, ROLE_LABEL, SERVICE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from infra.manifests import Manifest
    from infra.settings.monitoring import MonitoringSettings, VolumeSettings
    from infra.settings.stack import Settings
    from infra.storage import Backing

KINDS = {
    "core": ("nodes", "persistentvolumeclaims", "pods", "resourcequotas"),
    "apps": ("daemonsets", "deployments", "statefulsets"),
}
"""Kinds that it reads, by API group. Each kind is a list of all its objects in its memory."""
LABELS = {
    "nodes": (POOL_LABEL, "node.kubernetes.io/instance-type"),
    "pods": (JOB_LABEL, KIND_LABEL, ROLE_LABEL, SERVICE_LABEL, QUEUE_LABEL),
}
"""Labels of objects that become labels of kube_<kind>_labels."""


def kube_state_metrics_arguments() -> list[str]:
    """Return its command line."""
    allowed = ",".join(f"{kind}=[{','.join(names)}]" for kind, names in LABELS.items())
    return [
        f"--port={KUBE_STATE_METRICS_PORT}",
        f"--telemetry-port={KUBE_STATE_METRICS_OWN_PORT}",
        f"--resources={','.join(sorted(kind for kinds in KINDS.values() for kind in kinds))}",
        f"--metric-allowlist={','.join(KEPT_METRICS[KUBE_STATE_METRICS])}",
        f"--metric-labels-allowlist={allowed}",
    ]


def kube_state_metrics_manifests() -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    rules = [rule(group, " ".join(kinds), ("list", "watch")) for group, kinds in KINDS.items()]
    by_kind = {
        "account": account(KUBE_STATE_METRICS),
        **grant(KUBE_STATE_METRICS, rules),
        "network": network_policy(KUBE_STATE_METRICS, {KUBE_STATE_METRICS_PORT: [callers(PROMETHEUS)]}, [{}]),
    }
    permissions = {f"{KUBE_STATE_METRICS}-{kind.lower()}": manifest for kind, manifest in by_kind.items()}
    return {**permissions, KUBE_STATE_METRICS: _deployment()}


def _deployment() -> Manifest:
    container = {
        "name": KUBE_STATE_METRICS,
        "image": KUBE_STATE_METRICS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": kube_state_metrics_arguments(),
        "ports": [
            {"name": METRICS_PORT_NAME, "containerPort": KUBE_STATE_METRICS_PORT},
            {"name": "own-metrics", "containerPort": KUBE_STATE_METRICS_OWN_PORT},
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "own-metrics"}, "periodSeconds": 2},
        "resources": resources("20m", "48Mi", "1Gi"),
        "securityContext": container_security(),
    }
    return deployment(KUBE_STATE_METRICS, api_client_pod(KUBE_STATE_METRICS, container))


# What the operator's Prometheus and Alertmanager controllers watch whether it is used or not: they wait for each, and
# end after ten minutes without. Other kinds (agents, Thanos, ScrapeConfig) it leaves out where their CRD is missing.
CRDS = (
    "monitoring.coreos.com_alertmanagerconfigs",
    "monitoring.coreos.com_alertmanagers",
    "monitoring.coreos.com_podmonitors",
    "monitoring.coreos.com_probes",
    "monitoring.coreos.com_prometheuses",
    "monitoring.coreos.com_prometheusrules",
    "monitoring.coreos.com_servicemonitors",
)


def crd_folder() -> Path:
    """Return where `make tools` puts the CRDs, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"prometheus-operator-{PROMETHEUS_OPERATOR}"


def crd_manifests(folder: Path) -> dict[str, Manifest]:
    """Return the CRDs by file name.

    Raises:
        RefusalError: they are not there.
    """
    return read_crds(folder, CRDS, "the Prometheus operator")


@dataclass(frozen=True, kw_only=True)
class MonitoringArgs:
    """Arguments of Monitoring."""

    settings: MonitoringSettings
    workloads: str
    """Namespace of the workloads."""
    volcano: bool
    """Whether the platform installed Volcano."""
    dcgm_exporter: bool
    """Whether the platform installed the exporter of GPU metrics."""
    target_namespaces: Sequence[str]
    """Namespaces of the platform's own parts that have metrics."""
    trainer_image: str
    """The platform's image of training."""
    gateway: bool = False
    """Whether the stack has a gateway."""
    resource_metrics: bool = False
    """Whether the metrics adapter, if there is one, serves metrics.k8s.io."""
    node_folders: bool = False
    """Whether disks are folders of the node, as on the cluster of `make up`."""
    storage_class: str | None = None
    """Class of the disks whose settings name none. None: the cluster's default one."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies, created before and deleted after: nodes, and the namespaces of the targets."""


def declare_monitoring(
    settings: Settings, depends_on: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
) -> Monitoring | None:
    """Declare a stack's monitoring, if it has any. `depends_on`: see MonitoringArgs."""
    if settings.monitoring.kind == "none":
        return None
    targets = {
        VOLCANO_NAMESPACE: settings.scheduling.install,
        GPU_NAMESPACE: settings.gpu.dcgm_exporter,
        GATEWAY_NAMESPACE: settings.gateway.enabled,
    }
    args = MonitoringArgs(
        settings=settings.monitoring,
        workloads=settings.namespace,
        volcano=settings.scheduling.install,
        dcgm_exporter=settings.gpu.dcgm_exporter,
        target_namespaces=[namespace for namespace, is_there in targets.items() if is_there],
        trainer_image=platform_trainer_image(settings),
        gateway=settings.gateway.enabled,
        resource_metrics=settings.serves_resource_metrics,
        node_folders=settings.runs_on_own_local_cluster,
        storage_class=_disk_class(settings),
        depends_on=depends_on,
    )
    return Monitoring("monitoring", args, opts)


def _disk_class(settings: Settings) -> str | None:
    """Return the first disk that the environment under alicloud has a class for: shared files are too slow."""
    if settings.alicloud is None:
        return None
    return next((each.name for each in settings.storage.classes if isinstance(each, DiskClass)), None)


class Monitoring(pulumi.ComponentResource):
    """Prometheus and what belongs to it, or only our monitors, rules and dashboards for one that is there; and logs."""

    prometheus_url: str
    """Address inside the cluster; empty where the Prometheus is not ours."""
    logs_url: str
    """Address of the log store inside the cluster; empty without one."""
    grafana_url: str
    """Address inside the cluster; empty without Grafana."""

    def __init__(self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(COMPONENT, name, None, opts)
        settings = args.settings
        own = settings.kind == "operator"
        keeps_logs = settings.logs.kind == "victoria_logs"
        self._args = args
        base = [*args.depends_on, *self._namespaces(for_nodes=own or keeps_logs)]
        crds = self._crds() if own else []
        selected = self._objects_of_the_operator([*base, *crds])
        if own:
            self._own_stack(base, crds, selected)
        self._part(log_manifests(self._logs()), base)
        self._dashboards(base)
        self.prometheus_url = prometheus.OPERATED.url if own else ""
        self.grafana_url = grafana.URL if own and settings.grafana else ""
        self.logs_url = logs_store.URL if keeps_logs else ""
        self.register_outputs({"kind": settings.kind})

    def _is_theirs(self, namespace: str) -> bool:
        """Whether a namespace belongs to the stack that is there, so that it must not go with ours."""
        return self._args.settings.kind == "existing" and self._args.settings.namespace == namespace

    @property
    def _objects_namespace(self) -> str:
        """Namespace of monitors, rules and dashboards."""
        return self._args.settings.namespace if self._args.settings.kind == "existing" else NAMESPACE

    def _namespaces(self, *, for_nodes: bool) -> list[pulumi.Resource]:
        """Declare the namespaces of our parts. `for_nodes`: also the one of the parts that run on every node."""
        nodes = self._namespace(NODE_NAMESPACE, "privileged") if for_nodes else []
        own = [] if self._is_theirs(NAMESPACE) else self._namespace(NAMESPACE, "restricted")
        return [*nodes, *own]

    def _namespace(self, name: str, level: PodSecurity) -> list[pulumi.Resource]:
        namespace = self._child(f"{name}-namespace", namespace_manifest(name, level))
        return [namespace, self._child(f"{name}-default-deny", default_deny_manifest(name), [namespace])]

    def _crds(self) -> list[pulumi.Resource]:
        return [self._child(f"crd-{name}", manifest) for name, manifest in crd_manifests(crd_folder()).items()]

    def _own_stack(
        self, base: Sequence[pulumi.Resource], crds: Sequence[pulumi.Resource], selected: Sequence[pulumi.Resource]
    ) -> None:
        """Declare operator, Prometheus and the rest. `base`: what every part waits for; `selected`: monitors, rules."""
        settings = self._args.settings
        # Before the operator, which would make it, and after it when all goes.
        kubelets = self._child("kubelet-service", kubelet_service_manifest(), self._args.depends_on)
        self._part(operator_manifests(), [*base, *crds, kubelets])
        self._part(kube_state_metrics_manifests(), base)
        self._part(node_exporter_manifests(), base)
        targets = dict.fromkeys(
            [
                NAMESPACE,
                NODE_NAMESPACE,
                KUBELET_NAMESPACE,
                "default",
                self._args.workloads,
                *self._args.target_namespaces,
            ]
        )
        args = PrometheusArgs(settings=settings, backing=self._backing(settings.storage), namespaces=list(targets))
        # A changed configuration reaches the pod when the kubelet next looks at its volumes, up to a minute later: the
        # first one must hold all targets, or the first job has ended before anybody reads it.
        self._part(prometheus_manifests(args), [*base, *crds, *selected])
        self._part(alertmanager_manifests(settings, self._backing(settings.alertmanager_storage)), [*base, *crds])
        if settings.has_metrics_adapter:
            adapter = MetricsAdapterArgs(
                scrape_interval_seconds=settings.scrape_interval_seconds,
                resource_metrics=self._args.resource_metrics,
                image=self._args.trainer_image,
            )
            self._part(metrics_adapter_manifests(adapter), base)

    def _logs(self) -> LogArgs:
        settings = self._args.settings
        return LogArgs(
            settings=settings.logs,
            backing=self._backing(settings.logs.storage),
            readers=tuple(dict.fromkeys([NAMESPACE, self._objects_namespace])),
        )

    def _objects_of_the_operator(self, before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Declare monitors and rules, which wait for `before`."""
        settings = self._args.settings
        args = MonitorsArgs(
            kind=settings.kind,
            workloads_namespace=self._args.workloads,
            monitoring_namespace=self._objects_namespace,
            selector_labels=settings.selector_labels,
            interval_seconds=settings.scrape_interval_seconds,
            volcano=self._args.volcano,
            dcgm_exporter=self._args.dcgm_exporter,
            victoria_logs=settings.logs.kind == "victoria_logs",
            gateway=self._args.gateway,
        )
        monitors = {f"monitor-{job}": manifest for job, manifest in monitor_manifests(args).items()}
        rules = rule_manifests(
            settings.thresholds,
            namespace=self._objects_namespace,
            labels=settings.selector_labels,
            runbook_base_url=settings.runbook_base_url,
            volcano=self._args.volcano,
            has_gateway=self._args.gateway,
            run_ends=bool(settings.run_webhooks),
        )
        return self._part({**monitors, **rules}, before)

    def _dashboards(self, before: Sequence[pulumi.Resource]) -> None:
        settings = self._args.settings
        if not settings.grafana or settings.kind == "managed":
            return
        # Loading what builds them takes a second, which a stack without them need not spend.
        from infra.monitoring.dashboards import dashboards  # noqa: PLC0415

        boards = dashboards(settings.thresholds, settings.runbook_base_url)
        manifests = dashboard_manifests(boards, self._objects_namespace, settings.selector_labels)
        if settings.kind == "operator":
            manifests |= grafana_manifests(settings, sorted(boards))
        self._part(manifests, before)

    def _backing(self, disk: VolumeSettings) -> Backing | None:
        if not disk.persistent:
            return None
        if self._args.node_folders:
            return NodeFolders()
        return ClassVolumes(storage_class=disk.storage_class or self._args.storage_class)

    def _part(self, manifests: Mapping[str, Manifest], before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """Declare the objects of a part, which all wait for `before`.

        Return what its pods wait for in addition: all of its objects but Services, which wait for the pods.
        """
        return declare_part(manifests, self._child, before)[0]

    def _child(
        self, name: str, manifest: Manifest, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.CustomResource:
        return resource(name, manifest, pulumi.ResourceOptions(parent=self, depends_on=list(depends_on)))
