"""RBAC permissions of Volcano's components: no more than they were observed to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.kubernetes.access import READ, role_manifests, rule
from infra.volcano import CONTROLLERS, NAMESPACE

if TYPE_CHECKING:
    from infra.manifests import Manifest


def _rule(groups: str, kinds: str, verbs: str) -> Manifest:
    return rule(groups, kinds, verbs.split())


_READ = " ".join(READ)
SCHEDULER_RULES: list[Manifest] = [
    _rule("core", "pods", f"{_READ} patch delete"),
    _rule("core", "pods/status", "update patch"),
    _rule("core", "pods/binding", "create"),
    _rule("core", "events", "create list watch update patch"),
    _rule("events.k8s.io", "events", "create update patch"),
    _rule("core", "persistentvolumeclaims persistentvolumes", f"{_READ} update patch"),
    _rule("core", "namespaces services replicationcontrollers resourcequotas", _READ),
    _rule("core", "nodes", f"{_READ} update patch"),
    _rule("core", "configmaps", f"{_READ} create update delete"),
    _rule("apps", "daemonsets replicasets statefulsets", _READ),
    _rule("policy", "poddisruptionbudgets", _READ),
    _rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", _READ),
    _rule("scheduling.k8s.io", "priorityclasses", _READ),
    _rule("resource.k8s.io", "resourceclaims", f"{_READ} create update patch"),
    _rule("resource.k8s.io", "resourceclaims/status", "update patch"),
    _rule("resource.k8s.io", "deviceclasses resourceslices devicetaintrules", _READ),
    _rule("coordination.k8s.io", "leases", "get create update watch"),
    _rule("batch.volcano.sh", "jobs", f"{_READ} update delete"),
    _rule("batch.volcano.sh", "jobs/status", "update patch"),
    _rule("scheduling.volcano.sh", "queues", f"{_READ} create update delete"),
    _rule("scheduling.volcano.sh", "queues/status podgroups/status", "update patch"),
    _rule("scheduling.volcano.sh", "podgroups", f"{_READ} update"),
    _rule("nodeinfo.volcano.sh", "numatopologies", f"{_READ} delete"),
    _rule("topology.volcano.sh", "hypernodes hypernodes/status", _READ),
]
CONTROLLER_RULES: list[Manifest] = [
    _rule("core", "pods", f"{_READ} create update patch delete"),
    _rule("core", "pods/finalizers", "update patch"),
    _rule("core", "events", "create list watch update patch"),
    _rule("core", "persistentvolumeclaims", f"{_READ} create"),
    _rule("core", "services", f"{_READ} create delete"),
    _rule("core", "configmaps", f"{_READ} create update delete"),
    _rule("core", "nodes", _READ),
    _rule("core", "namespaces", _READ),
    _rule("apps", "daemonsets replicasets statefulsets", _READ),
    _rule("batch", "jobs", _READ),
    _rule("networking.k8s.io", "networkpolicies", "get create delete"),
    _rule("scheduling.k8s.io", "priorityclasses", _READ),
    _rule("coordination.k8s.io", "leases", "get create update watch"),
    _rule("batch.volcano.sh", "jobs", f"{_READ} update delete"),
    _rule("batch.volcano.sh", "jobs/status jobs/finalizers", "update patch"),
    _rule("bus.volcano.sh", "commands", f"{_READ} delete"),
    _rule("scheduling.volcano.sh", "podgroups queues", f"{_READ} create update patch delete"),
    _rule("scheduling.volcano.sh", "podgroups/status queues/status podgroups/finalizers", "update patch"),
    _rule("topology.volcano.sh", "hypernodes", f"{_READ} create update patch delete"),
    _rule("topology.volcano.sh", "hypernodes/status", "update patch"),
]


def permission_manifests(account: str, rules: list[Manifest]) -> list[Manifest]:
    """Return the ServiceAccount, ClusterRole and ClusterRoleBinding of one of Volcano's parts."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}},
        *role_manifests({"name": account}, rules, (account, NAMESPACE)).values(),
    ]


def secret_permission_manifests(workloads: str) -> list[Manifest]:
    """Return the Role in a workloads' namespace for the keys of MPI jobs (plugin `ssh`), and what binds Volcano to it.

    Its controllers ask for each Secret by its name, and have no right on those of other namespaces.
    """
    metadata = {"name": f"{CONTROLLERS}-secrets", "namespace": workloads}
    rules = [_rule("core", "secrets", "get create update delete")]
    return list(role_manifests(metadata, rules, (CONTROLLERS, NAMESPACE)).values())
