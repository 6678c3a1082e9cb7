"""Network policies of workloads: each opens only its own ports in a namespace that is closed by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pulumi

from infra.metrics_access import READERS
from infra.pod_network_modes import without_network_policy
from infra.workload_labels import OWNER_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infra.manifests import Manifest
    from infra.pod_network_modes import PodNetwork
    from workloads.egress import Egress

EVERY_POD: Manifest = {"namespaceSelector": {}}
"""The peer of a rule: every pod of the cluster."""


@dataclass(frozen=True, kw_only=True)
class PolicyIdentity:
    """The owner of a policy. Its name has all of it: a job and a service, or two stacks', may have one name."""

    what: Literal["job", "service", "source"]
    """Its purpose; `source`: the pod that fetches a job's code."""
    name: str
    namespace: str
    owner: str
    """The stack, as in the label athanor.dev/owner."""

    def metadata(self) -> Manifest:
        """Return the policy's metadata; no part of its name contains a dot."""
        return {
            "name": f"{self.what}.{self.name}.{self.owner}",
            "namespace": self.namespace,
            "labels": {OWNER_LABEL: self.owner},
        }


def _policy(identity: PolicyIdentity, labels: dict[str, str], rules: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": identity.metadata(),
        "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress", "Egress"], **rules},
    }


def job_network_policy_manifest(
    identity: PolicyIdentity, labels: dict[str, str], metrics_ports: Sequence[int], egress: Sequence[Egress] = ()
) -> Manifest:
    """Return the policy of a job: its own pods reach each other on any port, Prometheus reaches their metrics.

    The namespace's default-deny adds DNS look-ups.

    Args:
        identity: Whose it is.
        labels: Labels that all pods of the job and no other pods carry.
        metrics_ports: Ports of all ranks of a pod.
        egress: Where else the pods may connect to.
    """
    own_pods = [{"podSelector": {"matchLabels": labels}}]
    scrapes = [_open_to_readers(metrics_ports)] if metrics_ports else []
    opened: list[Manifest] = [{"to": [rule.peer], "ports": _tcp(rule.ports)} for rule in egress]
    rules = {"ingress": [{"from": own_pods}, *scrapes], "egress": [{"to": own_pods}, *opened]}
    return _policy(identity, labels, rules)


def source_network_policy_manifest(identity: PolicyIdentity, labels: dict[str, str], server: Manifest) -> Manifest:
    """Return the policy of the pod that fetches a job's code: it alone reaches the git server.

    Args:
        identity: Whose it is.
        labels: Labels that this pod and no other carries.
        server: The rule that opens the way there.
    """
    return _policy(identity, labels, {"ingress": [], "egress": [server]})


def service_network_policy_manifest(
    identity: PolicyIdentity,
    labels: dict[str, str],
    ports: Mapping[str, int],
    egress: Sequence[Manifest] = (),
    caller: Manifest = EVERY_POD,
) -> Manifest:
    """Return the policy of a service: it calls nobody but what the rules of `egress` name.

    Args:
        identity: Whose it is.
        labels: Labels that its pods and no others carry.
        ports: Of its pods, by name. Prometheus reads `metrics`.
        egress: Rules of what it may call.
        caller: Who may call the other ports.
    """
    called: Manifest = {"ports": _tcp(number for name, number in ports.items() if name != "metrics"), "from": [caller]}
    opened: Manifest = {"ingress": [called, _open_to_readers([ports["metrics"]])]}
    return _policy(identity, labels, {**opened, **({"egress": list(egress)} if egress else {})})


def _open_to_readers(ports: Sequence[int]) -> Manifest:
    return {"ports": _tcp(ports), "from": list(READERS)}


def _tcp(ports: Iterable[int]) -> list[Manifest]:
    # One by one: not every network plugin knows ranges.
    return [{"protocol": "TCP", "port": port} for port in ports]


def warn_without_network_policy(network: PodNetwork, workload: pulumi.Resource) -> None:
    """Say in the preview that the namespace's default-deny does not hold for a workload."""
    if without_network_policy(network):
        pulumi.log.warn(
            f"NetworkPolicies do not apply to pods with network={type(network).__name__}: only security groups isolate"
            " them",
            workload,
        )
