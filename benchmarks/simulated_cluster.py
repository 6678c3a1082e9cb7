"""A local cluster with Volcano as the platform installs it and GPU nodes that exist only in the API server."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import yaml

from infra.build import simulated_node_manifest
from infra.images import VOLCANO_CONTROLLERS_IMAGE, VOLCANO_SCHEDULER_IMAGE
from infra.namespaces import namespace_manifest
from infra.queues import QueueLimits, queue_manifest
from infra.settings.scheduling import QueueSettings
from infra.volcano import CONTROLLERS, SCHEDULER
from infra.volcano import NAMESPACE as VOLCANO_NAMESPACE
from infra.volcano.configuration import scheduler_config_manifest, scheduler_config_text
from infra.volcano.crds import crd_manifests
from infra.volcano.deployments import controllers_manifest, scheduler_manifest
from infra.volcano.permissions import CONTROLLER_RULES, SCHEDULER_RULES, permission_manifests
from tools.images import ensure_platform_images
from tools.local_cluster import LocalCluster, control_plane, startup, state
from tools.local_cluster.node import Node
from tools.process import run
from tools.toolchain import ensure
from tools.toolchain.charts import volcano_chart
from workloads.pods import Claims

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from infra.manifests import Manifest
    from tools.local_cluster.api import ApiClient
    from tools.progress import Progress

NAMESPACE = "bench"
QUEUE = "bench"
CLAIMS = Claims(data="data", output="output")
"""The volumes that jobs of ours mount."""
_STORAGE_CLASS = "bench"
_PARALLEL = 8
_WAIT_SECONDS = 300.0
# Job controllers make and remove these: a round begins when nothing of the one before is left.
_OF_JOBS = {
    "jobs": f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs",
    "networkpolicies": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "pods": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "podgroups": f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups",
    "services": f"/api/v1/namespaces/{NAMESPACE}/services",
}
_PATHS = {"Job": "jobs", "NetworkPolicy": "networkpolicies"}


@dataclass(frozen=True, kw_only=True)
class SimulatedCluster:
    """The running cluster, as its administrator."""

    api: ApiClient
    kubectl: tuple[str, ...]
    """The command line of kubectl up to the verb."""

    def create(self, *manifests: Manifest) -> None:
        """Create Volcano Jobs and NetworkPolicies, several at once."""
        self._each(lambda each: self.api.request("POST", _OF_JOBS[_PATHS[each["kind"]]], each), manifests)

    def run_until_bound(self, manifests: Sequence[Manifest], pods: int) -> None:
        """Create jobs and wait until so many pods have been given a node."""
        self.create(*manifests)
        bound: set[str] = set()
        deadline = time.monotonic() + _WAIT_SECONDS
        while len(bound) < pods:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(bound)} of {pods} pods have a node after {_WAIT_SECONDS:.0f} s")
            self._watch_bound(bound, pods)

    def _watch_bound(self, bound: set[str], pods: int) -> None:
        """Add the names of pods that have a node, until there are so many or the API server ends the watch.

        It lists those that have one and then every other when it gets one, in rows without the pod's content.
        """
        words = ("get", "pods", f"--namespace={NAMESPACE}", "--field-selector=spec.nodeName!=", "--watch")
        command = [*self.kubectl, *words, "--no-headers", "--request-timeout=60s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                bound.add(line.split()[0])
                if len(bound) == pods:
                    break
            process.terminate()

    def pod_bytes(self) -> int:
        """Return the size of one pod as the API server sends it."""
        [pod] = self.api.get(f"{_OF_JOBS['pods']}?limit=1")["items"]
        return len(json.dumps(pod, separators=(",", ":")))

    def clear(self) -> None:
        """Remove all jobs and wait until nothing of them is left."""
        for kind in ("jobs", "networkpolicies"):
            self._raw("delete", f"{_OF_JOBS[kind]}?propagationPolicy=Background")
        self._await_none("jobs")
        # Nobody has to end anything on a simulated node, and the garbage collector takes its time.
        self._raw("delete", f"{_OF_JOBS['pods']}?gracePeriodSeconds=0")
        for kind in _OF_JOBS:
            self._await_none(kind)

    def _await_none(self, kind: str) -> None:
        path = f"{_OF_JOBS[kind]}?limit=1"
        _await(lambda: not json.loads(self._raw("get", path))["items"], f"the {kind} to go", every_seconds=0.5)

    def _raw(self, verb: str, path: str) -> str:
        """Return the answer to a request that may take as long as it takes: deleting a thousand objects is one."""
        return run([*self.kubectl, verb, "--raw", path])

    def apply(self, *manifests: Manifest) -> None:
        """Create objects of any kind from their manifests."""
        run([*self.kubectl, "apply", "--server-side", "-f", "-"], stdin=yaml.safe_dump_all(manifests))

    def _each(self, call: Callable[[Manifest], object], manifests: Sequence[Manifest]) -> None:
        with ThreadPoolExecutor(_PARALLEL) as threads:
            list(threads.map(call, manifests))

    def add_nodes(self, count: int, instance_type: str) -> None:
        """Add simulated nodes of an instance type and wait until they are ready."""
        nodes = [simulated_node_manifest(f"bench-{number}", instance_type, "bench") for number in range(count)]
        self._each(lambda node: self.api.request("POST", "/api/v1/nodes", node), nodes)
        _await(lambda: self._ready_nodes() > count, "the simulated nodes to be ready", every_seconds=1)

    def _ready_nodes(self) -> int:
        """Return how many nodes are ready, the one that runs Volcano too; `kubectl wait` asks for each on its own."""
        listed = run([*self.kubectl, "get", "nodes", "--no-headers"]).splitlines()
        return sum(line.split()[1] == "Ready" for line in listed)

    def install_volcano(self, report: Progress) -> None:
        """Install what the platform installs, as the platform configures it, and one queue without limits."""
        settings = scheduler_config_text()
        crds = crd_manifests(volcano_chart(report)).values()
        self.apply(*crds, namespace_manifest(VOLCANO_NAMESPACE))
        run([*self.kubectl, "wait", "crd", "--all", "--for=condition=Established", f"--timeout={_WAIT_SECONDS:.0f}s"])
        parts = ((SCHEDULER, SCHEDULER_RULES), (CONTROLLERS, CONTROLLER_RULES))
        self.apply(
            *(manifest for name, rules in parts for manifest in permission_manifests(name, rules)),
            scheduler_config_manifest(settings),
            scheduler_manifest(VOLCANO_SCHEDULER_IMAGE, settings),
            controllers_manifest(VOLCANO_CONTROLLERS_IMAGE),
            queue_manifest(QueueSettings(name=QUEUE), QueueLimits()),
        )
        for name, _ in parts:
            run([*self.kubectl, "rollout", "status", f"deployment/{name}", f"--namespace={VOLCANO_NAMESPACE}"])

    def install_volumes(self) -> None:
        """Create the namespace, and in it claims that pods of any node can mount."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for claim in (CLAIMS.data, CLAIMS.output):
            self.apply(*_volume_and_claim(claim))


def _volume_and_claim(name: str) -> tuple[Manifest, Manifest]:
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": _STORAGE_CLASS}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": name, "namespace": NAMESPACE},
            "hostPath": {"path": "/tmp", "type": "Directory"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    return volume, claim


@contextmanager
def simulated_cluster(name: str, *, nodes: int, instance_type: str, report: Progress) -> Generator[SimulatedCluster]:
    """Start a cluster of an own name, with so many simulated nodes; everything is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="athanor-bench-") as home:
        cluster = LocalCluster(name, home=Path(home))
        try:
            # With the little that a local cluster is given at rest, the API server would only collect garbage.
            with patch.dict(control_plane.MEMORY_LIMITS_MIB, dict.fromkeys(control_plane.MEMORY_LIMITS_MIB, 2048)):
                cluster.up(report)
            pods_run_forever(cluster)
            ensure_platform_images(cluster.containerd_socket, ["vc-scheduler", "vc-controller-manager"], report)
            administrator = _administrator(cluster, report)
            report.detail(f"installing Volcano, adding {nodes} simulated nodes")
            administrator.install_volcano(report)
            administrator.install_volumes()
            administrator.add_nodes(nodes, instance_type)
            yield administrator
        finally:
            cluster.down(report)


def _administrator(cluster: LocalCluster, report: Progress) -> SimulatedCluster:
    stored = state.load(cluster.layout.state_file)
    assert stored is not None
    program = ensure(["kubectl"], report)["kubectl"]
    return SimulatedCluster(
        api=control_plane.api_client(cluster.layout, stored.network),
        kubectl=(str(program), f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}"),
    )


def pods_run_forever(cluster: LocalCluster) -> None:
    """Have kwok never end the pods of Jobs, which it does at once by default: their GPUs must stay taken."""
    file = cluster.layout.control_plane / "kwok.yaml"
    documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    kept = [document for document in documents if document["metadata"].get("name") != "pod-complete"]
    file.write_text(yaml.safe_dump_all(kept), encoding="utf-8")
    [kwok] = [each for each in control_plane.components(cluster.layout) if each.name == "kwok-controller"]
    node = Node(cluster.layout)
    kwok.end(node)
    startup.bring_up(node, [kwok])


def _await(condition: Callable[[], bool], what: str, *, every_seconds: float) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_WAIT_SECONDS:.0f} s")
        time.sleep(every_seconds)
