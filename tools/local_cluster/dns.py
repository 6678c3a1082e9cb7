"""The cluster's DNS: CoreDNS as a pod on the real node, and a query that shows that it answers."""

from __future__ import annotations

import hashlib
import math
import secrets
import socket
import struct
from datetime import datetime
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from infra.images import COREDNS_IMAGE
from tools.local_cluster.api import ApiError, ApiUnreachableError
from tools.local_cluster.kubelet import CLUSTER_DOMAIN

if TYPE_CHECKING:
    from tools.local_cluster.api import ApiClient
    from tools.local_cluster.layout import Layout, Network

NAMESPACE = "kube-system"
SELECTOR = {"k8s-app": "kube-dns"}
_LABEL_SELECTOR = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
QUERY_TIMEOUT_SECONDS = 1.0
QUERY_ATTEMPTS = 2
"""Number of attempts that a resolver makes by default (resolv.conf(5), `attempts`): on a busy machine an answer may be
late once."""
API_SERVICE_NAME = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
METRICS_PORT, HEALTH_PORT, READY_PORT = 9153, 8080, 8181

# No cache: answers come from memory anyway, and a name asked for just before its pod is up must not stay unknown.
# No forwarding: the cluster reaches no other machine, so any other name is refused at once instead of timing out.
COREFILE = f"""\
.:53 {{
    errors
    health {{
        lameduck 1s
    }}
    ready
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        pods verified
        ttl 5
    }}
    prometheus :{METRICS_PORT}
    loadbalance
}}
"""


def manifests(layout: Layout, network: Network) -> dict[str, dict[str, Any]]:
    """Return CoreDNS's objects by their path in the API, in the order in which they must be created."""
    core, apps = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/apps/v1/namespaces/{NAMESPACE}"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    return {
        f"{core}/serviceaccounts/coredns": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "coredns", "namespace": NAMESPACE},
        },
        f"{rbac}/clusterroles/system:coredns": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["endpoints", "services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        f"{rbac}/clusterrolebindings/system:coredns": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}],
        },
        f"{core}/configmaps/coredns": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns", "namespace": NAMESPACE},
            "data": {"Corefile": COREFILE},
        },
        f"{core}/services/kube-dns": _service(network),
        f"{apps}/deployments/coredns": _deployment(layout),
    }


def _service(network: Network) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": SELECTOR},
        "spec": {
            "clusterIP": str(network.dns_service),
            "selector": SELECTOR,
            "ports": [
                {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "targetPort": 53, "protocol": "TCP"},
                {"name": "metrics", "port": METRICS_PORT, "targetPort": METRICS_PORT, "protocol": "TCP"},
            ],
        },
    }


def _deployment(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": NAMESPACE, "labels": SELECTOR},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": SELECTOR},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": SELECTOR,
                    # CoreDNS reads its Corefile once, so a changed one must make new pods
                    "annotations": {"athanor/corefile": hashlib.sha256(COREFILE.encode()).hexdigest()[:16]},
                },
                "spec": _pod(layout),
            },
        },
    }


def _pod(layout: Layout) -> dict[str, Any]:
    return {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        # a simulated node would run it in name only
        "nodeSelector": {"kubernetes.io/hostname": layout.node_name},
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "coredns",
                "image": COREDNS_IMAGE,
                "imagePullPolicy": "Never",
                "args": ["-conf", "/etc/coredns/Corefile"],
                "env": [{"name": "GOMEMLIMIT", "value": "64MiB"}],
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                "securityContext": {
                    "readOnlyRootFilesystem": True,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                },
                "ports": [
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                    {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                ],
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
                "livenessProbe": {"httpGet": {"path": "/health", "port": HEALTH_PORT}, "failureThreshold": 5},
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": READY_PORT},
                    "periodSeconds": 1,
                    "failureThreshold": 5,
                },
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }


def apply(api: ApiClient, layout: Layout, network: Network) -> None:
    """Make CoreDNS's objects as this version wants them."""
    for path, manifest in manifests(layout, network).items():
        api.apply(path, manifest)


def is_server_ready(api: ApiClient, since: float) -> bool:
    """Return whether CoreDNS is ready in a container that started since then (epoch seconds).

    A node that starts again finds its pods still recorded as ready, under addresses that others may get: the Service
    may answer once by such a record, and then not until the kubelet has corrected it.
    """
    try:
        pods = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={_LABEL_SELECTOR}")["items"]
    except (ApiUnreachableError, ApiError):
        return False
    statuses = (status for pod in pods for status in pod["status"].get("containerStatuses", []))
    return any(status["ready"] and _started_at(status) >= math.floor(since) for status in statuses)


def _started_at(status: dict[str, Any]) -> float:
    running = status["state"].get("running")
    return datetime.fromisoformat(running["startedAt"]).timestamp() if running else -math.inf


def is_answering(network: Network) -> bool:
    """Return whether the DNS Service, asked from this machine, knows the API server's Service."""
    return any(_knows_api_server(network) for _ in range(QUERY_ATTEMPTS))


def _knows_api_server(network: Network) -> bool:
    try:
        return query(str(network.dns_service), API_SERVICE_NAME) == [network.api_service]
    except OSError:
        return False


def query(server: str, name: str, *, port: int = 53) -> list[IPv4Address]:
    """Return the IPv4 addresses that a DNS server has for a name; empty where it has none.

    Raises:
        OSError: no answer within 1 s, or one that makes no sense.
    """
    number = secrets.randbits(16)
    question = _encode_name(name) + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(QUERY_TIMEOUT_SECONDS)
        connection.connect((server, port))
        connection.send(struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + question)
        answer = connection.recv(4096)
    try:
        return _addresses(answer, number, len(question))
    except (struct.error, IndexError, ValueError) as error:
        raise OSError(f"DNS server {server}: malformed answer for {name}") from error


def _encode_name(name: str) -> bytes:
    labels = name.rstrip(".").encode().split(b".")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _addresses(answer: bytes, number: int, question_length: int) -> list[IPv4Address]:
    """Read the A records out of an answer (RFC 1035, section 4.1)."""
    header_length = 12
    echoed, _, _, count, _, _ = struct.unpack_from("!HHHHHH", answer)
    if echoed != number:
        raise OSError("DNS: an answer to another question")
    position = header_length + question_length
    addresses: list[IPv4Address] = []
    for _ in range(count):
        position = _after_name(answer, position)
        kind, _, _, length = struct.unpack_from("!HHIH", answer, position)
        position += 10
        if kind == 1:
            addresses.append(IPv4Address(answer[position : position + length]))
        position += length
    return addresses


def _after_name(answer: bytes, position: int) -> int:
    while answer[position] != 0:
        if answer[position] & 0xC0 == 0xC0:  # a pointer to a name further up ends this one
            return position + 2
        position += answer[position] + 1
    return position + 1
