"""The control plane that kwokctl creates: etcd, API server, controllers, scheduler, kwok if nodes are simulated."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from tools.files import write_atomically
from tools.local_cluster import pki, state
from tools.local_cluster.api import ApiClient
from tools.local_cluster.component import Component, go_memory, http_probe
from tools.local_cluster.layout import API_SERVER_PORT, Layout, Network
from tools.local_cluster.pki import Authority, Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tools.local_cluster.node import Node
    from tools.progress import Progress

TOOLS = ("kwokctl", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
SIMULATOR = "kwok"
"""The tool of a control plane with simulated nodes: what plays their kubelets."""
SIMULATED_NODE_SELECTOR = "kwok.x-k8s.io/node=fake"
LOOPBACK = "127.0.0.1"
CONTROLLER_MANAGER_PORT, SCHEDULER_PORT, KWOK_PORT, ETCD_PORT, ETCD_PEER_PORT = 10257, 10259, 10247, 2379, 2380

# Soft limits of the Go heap, well above what each needs at rest.
MEMORY_LIMITS_MIB = {
    "etcd": 128,
    "kube-apiserver": 700,
    "kube-controller-manager": 128,
    "kube-scheduler": 96,
    "kwok-controller": 96,
}
_SIMULATOR_COMPONENT = "kwok-controller"
FRONT_PROXY_AUTHORITY, FRONT_PROXY = "front-proxy-ca", "front-proxy-client"
_AUTOSCALER_SYNC_SECONDS = 5
"""Interval at which the number of pods is compared with the load: as often as the targets of `make up` are scraped."""


def authority(layout: Layout) -> Authority:
    """Return the cluster's certificate authority."""
    return Authority(layout.pki / "ca.crt", layout.pki / "ca.key")


def administrator(layout: Layout) -> Identity:
    """Return the administrator's certificate, in the group system:masters."""
    return Identity(layout.pki / "admin.crt", layout.pki / "admin.key")


def issue_certificates(layout: Layout) -> None:
    """Create the certificate by which API servers that extend the cluster's know it.

    Its authority is not the cluster's: those servers believe who it says is asking.
    """
    authority = pki.ensure_authority(layout.config, FRONT_PROXY_AUTHORITY)
    pki.issue(authority, layout.config, FRONT_PROXY, subject=f"/CN={FRONT_PROXY}")


def api_client(layout: Layout, network: Network) -> ApiClient:
    """Return an administrator's connection to the API server."""
    return ApiClient(str(network.node), API_SERVER_PORT, authority(layout).certificate, administrator(layout))


def kwokctl_configuration(layout: Layout, network: Network, binaries: Mapping[str, Path]) -> dict[str, Any]:
    """Return kwokctl's arguments; nodes are simulated where the SIMULATOR is among the binaries.

    Source of the options: https://kwok.sigs.k8s.io/docs/generated/apis/#config.kwok.x-k8s.io/v1alpha1
    """
    options: dict[str, Any] = {
        "runtime": "binary",
        # everything but the API server is for the control plane itself
        "bindAddress": LOOPBACK,
        "kubeApiserverPort": API_SERVER_PORT,
        "kubeApiserverCertSANs": [str(network.api_service), str(network.node), layout.node_name],
        "kubeControllerManagerPort": CONTROLLER_MANAGER_PORT,
        "kubeSchedulerPort": SCHEDULER_PORT,
        "kwokControllerPort": KWOK_PORT,
        "etcdPort": ETCD_PORT,
        "etcdPeerPort": ETCD_PEER_PORT,
        "disableQPSLimits": True,
        **{option: str(binaries[tool]) for tool, option in BINARY_OPTIONS.items() if tool in binaries},
        "disable": [] if SIMULATOR in binaries else [_SIMULATOR_COMPONENT],
    }
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": [
            {
                "name": component,
                "extraArgs": arguments,
                "extraEnvs": [
                    {"name": name, "value": value} for name, value in go_memory(MEMORY_LIMITS_MIB[component]).items()
                ],
            }
            for component, arguments in _component_arguments(layout, network).items()
            if component not in options["disable"]
        ],
    }


BINARY_OPTIONS = {
    "etcd": "etcdBinary",
    "kube-apiserver": "kubeApiserverBinary",
    "kube-controller-manager": "kubeControllerManagerBinary",
    "kube-scheduler": "kubeSchedulerBinary",
    "kwok": "kwokControllerBinary",
    "kubectl": "kubectlBinary",
}


def _component_arguments(layout: Layout, network: Network) -> dict[str, list[dict[str, Any]]]:
    added: dict[str, dict[str, str]] = {
        "etcd": {},
        "kube-apiserver": {
            "advertise-address": str(network.node),
            "service-cluster-ip-range": str(network.services),
            "enable-admission-plugins": "NodeRestriction",
            # logs and exec: the node's name resolves nowhere, and the kubelet wants to know who asks
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-client-certificate": str(administrator(layout).certificate),
            "kubelet-client-key": str(administrator(layout).key),
            "kubelet-certificate-authority": str(authority(layout).certificate),
            # API servers that extend this one read these from kube-system, to know it and who asks
            "requestheader-client-ca-file": str(layout.config / f"{FRONT_PROXY_AUTHORITY}.crt"),
            "requestheader-allowed-names": FRONT_PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            # by the addresses of their pods: the node has no route to those of Services
            "enable-aggregator-routing": "true",
        },
        # one instance of each: a lease would only delay the next start by its 15 s
        "kube-controller-manager": {
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "horizontal-pod-autoscaler-sync-period": f"{_AUTOSCALER_SYNC_SECONDS}s",
        },
        "kube-scheduler": {"leader-elect": "false"},
        "kwok-controller": {
            "manage-nodes-with-annotation-selector": SIMULATED_NODE_SELECTOR,
            "cidr": str(network.simulated_pods),
        },
    }
    overridden = {
        # the node's network holds loopback, its link to this machine and its pods, and no other interface
        "kube-apiserver": {
            "bind-address": "0.0.0.0",  # noqa: S104
            # its default is the administrator's
            "proxy-client-cert-file": str(pki.identity(layout.config, FRONT_PROXY).certificate),
            "proxy-client-key-file": str(pki.identity(layout.config, FRONT_PROXY).key),
        },
        # its default is to take over every node, the real one too
        "kwok-controller": {"manage-all-nodes": "false"},
    }
    return {
        component: [
            *({"key": key, "value": value} for key, value in arguments.items()),
            *({"key": key, "value": value, "override": True} for key, value in overridden.get(component, {}).items()),
        ]
        for component, arguments in added.items()
    }


def ensure_created(node: Node, network: Network, binaries: Mapping[str, Path], report: Progress) -> None:
    """Make the control plane's files with kwokctl, which also starts it for the first time.

    A control plane whose creation was interrupted is recreated; of one whose configuration has changed since, data and
    certificates are kept.
    """
    layout = node.layout
    configuration = kwokctl_configuration(layout, network, binaries)
    digest = state.digest(configuration)
    stored = state.load(layout.state_file) or state.State(block=str(network.block))
    if stored.control_plane == digest and _components_file(layout).exists():
        return
    report.detail("configuring the control plane")
    for component in components(layout):
        component.end(node)
    if stored.control_plane is None:
        shutil.rmtree(layout.kwok, ignore_errors=True)
    for folder in ("pids", "bin"):
        shutil.rmtree(layout.control_plane / folder, ignore_errors=True)
    _components_file(layout).unlink(missing_ok=True)
    layout.control_plane.mkdir(parents=True, exist_ok=True)
    logs = layout.control_plane / "logs"
    if not logs.is_symlink():
        logs.symlink_to(layout.logs)
    config_file = layout.config / "kwokctl.yaml"
    write_atomically(config_file, yaml.safe_dump(configuration, sort_keys=False))
    create = ["create", "cluster", f"--name={layout.name}", f"--config={config_file}", "--kubeconfig="]
    output = node.run([str(binaries["kwokctl"]), *create], env={"KWOK_WORKDIR": str(layout.kwok)})
    write_atomically(layout.logs / "kwokctl.log", output)
    state.save(layout.state_file, replace(stored, control_plane=digest))


def _components_file(layout: Layout) -> Path:
    return layout.control_plane / "kwok.yaml"


def components(layout: Layout) -> list[Component]:
    """Return the control plane's programs as kwokctl configured them, in the order of their start."""
    file = _components_file(layout)
    if not file.exists():
        return []
    documents: list[dict[str, Any]] = list(yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader))
    configuration = next(document for document in documents if document["kind"] == "KwokctlConfiguration")
    return [_component(entry) for entry in configuration.get("components", [])]


def _component(entry: dict[str, Any]) -> Component:
    name: str = entry["name"]
    return Component(
        name=name,
        command=(entry["binary"], *entry.get("args", [])),
        environment={variable["name"]: variable["value"] for variable in entry.get("envs", [])},
        address=ADDRESSES[name],
        probe=PROBES[name],
    )


ADDRESSES = {
    "etcd": f"{LOOPBACK}:{ETCD_PORT}",
    "kube-apiserver": f"0.0.0.0:{API_SERVER_PORT}",
    "kube-controller-manager": f"{LOOPBACK}:{CONTROLLER_MANAGER_PORT}",
    "kube-scheduler": f"{LOOPBACK}:{SCHEDULER_PORT}",
    "kwok-controller": f"{LOOPBACK}:{KWOK_PORT}",
}
PROBES: dict[str, Callable[[Node], bool]] = {
    "etcd": http_probe(LOOPBACK, ETCD_PORT, "/health"),
    "kube-apiserver": http_probe(LOOPBACK, API_SERVER_PORT, "/readyz", tls=True),
    "kube-controller-manager": http_probe(LOOPBACK, CONTROLLER_MANAGER_PORT, "/healthz", tls=True),
    "kube-scheduler": http_probe(LOOPBACK, SCHEDULER_PORT, "/healthz", tls=True),
    "kwok-controller": http_probe(LOOPBACK, KWOK_PORT, "/healthz"),
}
