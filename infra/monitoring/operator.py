"""The Prometheus operator: turns the Prometheus, Alertmanager, monitors and rules of one namespace into pods.

Source of flags and rights: prometheus-operator 0.93, cmd/operator/main.go and Documentation/platform/rbac.md, less what
it needs for namespaces and kinds that it has nothing to do with here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import PROMETHEUS_OPERATOR_IMAGE
from infra.kubernetes.access import READ, rule
from infra.kubernetes.pods import container_security, resources
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import (
    KUBELET_NAMESPACE,
    KUBELET_SERVICE,
    NAMESPACE,
    OPERATOR,
    OPERATOR_PORT,
    PROMETHEUS,
)
from infra.monitoring.parts import account, api_client_pod, callers, deployment, grant, network_policy
from infra.node_labels import SIMULATED_LABEL

if TYPE_CHECKING:
    from infra.manifests import Manifest

_NODES_WITH_KUBELET = f"{SIMULATED_LABEL}!=true,type!=kwok,type!=virtual-kubelet"
_GROUP = "monitoring.coreos.com"
_WRITE = (*READ, "create", "update", "patch", "delete")


def operator_manifests() -> dict[str, Manifest]:
    """Return all objects by logical name, but the kubelets' Service, which must be there before them."""
    policy = network_policy(OPERATOR, {OPERATOR_PORT: [callers(PROMETHEUS)]}, [{}])
    return {**permission_manifests(), f"{OPERATOR}-network": policy, OPERATOR: operator_manifest()}


def operator_arguments() -> list[str]:
    """Return the operator's command line."""
    return [
        # What it manages lives there, and it may do nothing anywhere else.
        f"--namespaces={NAMESPACE}",
        f"--web.listen-address=:{OPERATOR_PORT}",
        f"--kubelet-service={KUBELET_NAMESPACE}/{KUBELET_SERVICE}",
        f"--kubelet-selector={_NODES_WITH_KUBELET}",
        "--kubelet-endpointslice=true",
        "--kubelet-endpoints=false",
        # Kubelets have no port without encryption any more.
        "--kubelet-http-metrics=false",
        # A node that joins is read within half a minute, instead of three.
        "--kubelet-sync-period=30s",
        # It ends up in the containers that reload the configuration; upstream's 50 MiB are also the limit.
        "--config-reloader-cpu-limit=0",
        "--config-reloader-memory-request=16Mi",
        "--log-format=json",
    ]


def permission_manifests() -> dict[str, Manifest]:
    """Return account, roles and bindings: all in its own namespace, the kubelets' Service, little anywhere else."""
    managed = ("alertmanagers", "prometheuses")
    read = (*managed, "alertmanagerconfigs", "podmonitors", "probes", "prometheusrules", "servicemonitors")
    here = [
        rule(_GROUP, " ".join(read), READ),
        rule(_GROUP, " ".join(f"{kind}/status" for kind in managed), ("get", "update", "patch")),
        # Else it could not own the StatefulSets where the API server checks owners.
        rule(_GROUP, " ".join(f"{kind}/finalizers" for kind in managed), ("update",)),
        rule("apps", "statefulsets", _WRITE),
        rule("core", "configmaps secrets", _WRITE),
        rule("core", "services services/finalizers", ("get", "create", "update", "delete")),
        rule("core", "pods", ("list", "delete")),
    ]
    kubelets = [
        rule("core", "services services/finalizers", ("get", "create", "update")),
        rule("discovery.k8s.io", "endpointslices", ("get", "list", "create", "update", "delete")),
    ]
    everywhere = [
        rule("core", "nodes", ("list",)),
        rule("core", "namespaces", READ),
        rule("events.k8s.io", "events", ("create", "patch")),
        # It says so when a volume's class does not exist, instead of waiting forever.
        rule("storage.k8s.io", "storageclasses", ("get",)),
    ]
    in_kubelets = {
        f"kubelets-{kind}": manifest for kind, manifest in grant(OPERATOR, kubelets, KUBELET_NAMESPACE).items()
    }
    by_kind = {
        "account": account(OPERATOR),
        **grant(OPERATOR, here, NAMESPACE),
        **in_kubelets,
        **grant(OPERATOR, everywhere),
    }
    return {f"{OPERATOR}-{kind.lower()}": manifest for kind, manifest in by_kind.items()}


def kubelet_service_manifest() -> Manifest:
    """Return the kubelets' Service just as the operator makes it, so that it goes with the stack."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": KUBELET_SERVICE,
            "namespace": KUBELET_NAMESPACE,
            "labels": {
                "k8s-app": "kubelet",
                "app.kubernetes.io/name": "kubelet",
                "app.kubernetes.io/managed-by": OPERATOR,
            },
            # It has no selector: the operator writes its endpoints.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "ports": [
                {"name": "https-metrics", "port": 10250, "targetPort": 10250, "protocol": "TCP"},
                {"name": "cadvisor", "port": 4194, "targetPort": 4194, "protocol": "TCP"},
            ],
        },
    }


def operator_manifest() -> Manifest:
    """Return the operator's Deployment."""
    container = {
        "name": OPERATOR,
        "image": PROMETHEUS_OPERATOR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": operator_arguments(),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": OPERATOR_PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": METRICS_PORT_NAME}, "periodSeconds": 2},
        "resources": resources("20m", "48Mi", "256Mi"),
        "securityContext": container_security(),
    }
    return deployment(OPERATOR, api_client_pod(OPERATOR, container))
