"""The same program on a cluster of the user's own: a second one, named by kubeconfig and context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clone import Clone, make_clone, wait_until
from tools.images import ensure_platform_images
from tools.local_cluster import LocalCluster
from tools.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMESPACE = "team-a"
SYSTEM_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}
SETTINGS = {
    "athanor:namespace": NAMESPACE,
    "athanor:cluster.simulated_nodes[0].instance_type": "ecs.ebmgn7e.32xlarge",
    "athanor:cluster.simulated_nodes[0].count": "2",
    "athanor:storage.access_mode": "ReadWriteOnce",
    # This cluster has no class of disks; what watches the workloads runs in the tests of `make up`.
    "athanor:monitoring.kind": "none",
    "athanor:scheduling.queues[0].name": "research",
    "athanor:scheduling.queues[1].name": "production",
    "athanor:scheduling.queues[1].weight": "3",
}
CONSUMER = """
import sys
sys.path.insert(0, {athanor!r})
import pathlib, pulumi, pulumi_kubernetes as kubernetes
from infra.platform import Platform
from workloads.pytorch import PyTorchJob, PyTorchJobArgs

provider = kubernetes.Provider(
    "cluster", kubeconfig=pulumi.Output.secret(pathlib.Path({kubeconfig!r}).read_text()), context={context!r}
)
platform = Platform.from_stack("organization/athanor/local", provider)
PyTorchJob("theirs", platform, PyTorchJobArgs(program=("-m", "theirs.train"), workers=4))
"""


@pytest.fixture(scope="module")
def second_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("second")
    report = Progress(durations_file=home / "durations.json")
    cluster = LocalCluster("second", home=home)
    try:
        cluster.up(report)
        ensure_platform_images(cluster.containerd_socket, ["vc-scheduler", "vc-controller-manager"], report)
        yield cluster
    finally:
        cluster.down(report)


@pytest.fixture(scope="module")
def clone(second_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose stack names the second cluster, after `pulumi up`."""
    clone = make_clone(tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("home"))
    clone.make("tools")
    clone.pulumi("stack", "init")
    where = {
        "athanor:cluster.kubeconfig": str(second_cluster.kubeconfig),
        "athanor:cluster.context": second_cluster.context,
    }
    for key, value in {**where, **SETTINGS}.items():
        clone.pulumi("config", "set", "--path", key, value)
    clone.pulumi("up", "--yes", "--skip-preview")
    return clone


def on(cluster: LocalCluster, clone: Clone, *words: str) -> str:
    return clone.kubectl(f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.context}", *words)


def objects(cluster: LocalCluster, clone: Clone, kind: str, *words: str) -> dict[str, dict[str, object]]:
    items = json.loads(on(cluster, clone, "get", kind, "-o", "json", *words))["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_the_program_runs_there(second_cluster: LocalCluster, clone: Clone) -> None:
    assert {"volcano-system", NAMESPACE} <= set(objects(second_cluster, clone, "namespaces"))
    assert {"research", "production"} <= set(objects(second_cluster, clone, "queues.scheduling.volcano.sh"))
    assert clone.outputs()["queue"] == "research"
    assert set(objects(second_cluster, clone, "persistentvolumes")) == set()


def test_up_does_not_wait_for_volumes_or_training(second_cluster: LocalCluster, clone: Clone) -> None:
    claims = objects(second_cluster, clone, "persistentvolumeclaims", "-n", NAMESPACE)

    assert set(claims) == {"data", "output"}
    assert {claim["status"]["phase"] for claim in claims.values()} == {"Pending"}
    assert len(objects(second_cluster, clone, "jobs.batch.volcano.sh", "-n", NAMESPACE)) == 1


def test_simulated_gpu_nodes_are_ready_and_offer_their_gpus(second_cluster: LocalCluster, clone: Clone) -> None:
    def ready_nodes() -> list[dict[str, object]]:
        found = objects(second_cluster, clone, "nodes", "-l", "athanor.dev/simulated=true").values()
        return [
            node
            for node in found
            if {"type": "Ready", "status": "True"}.items()
            <= {**next(c for c in node["status"]["conditions"] if c["type"] == "Ready")}.items()
        ]

    nodes = wait_until(lambda: found if len(found := ready_nodes()) == 2 else None, "two simulated nodes to be ready")
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}


def test_the_settings_file_does_not_bind_the_state_to_this_machine(clone: Clone) -> None:
    assert str(clone.home) not in clone.pulumi("stack", "export")


def test_a_second_up_changes_nothing(clone: Clone) -> None:
    clone.pulumi("up", "--yes", "--expect-no-changes")


def test_refresh_finds_no_difference(clone: Clone) -> None:
    clone.pulumi("refresh", "--yes", "--expect-no-changes")


def test_an_object_deleted_behind_our_back_comes_back(second_cluster: LocalCluster, clone: Clone) -> None:
    on(second_cluster, clone, "delete", "networkpolicy", "default-deny", "-n", NAMESPACE)

    clone.pulumi("up", "--yes", "--refresh")

    assert "default-deny" in objects(second_cluster, clone, "networkpolicies", "-n", NAMESPACE)


def test_another_teams_program_runs_a_job_on_the_platform(
    second_cluster: LocalCluster, clone: Clone, tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: consumer\nruntime: python\n", encoding="utf-8")
    (tmp_path / "__main__.py").write_text(
        CONSUMER.format(
            athanor=str(clone.folder), kubeconfig=str(second_cluster.kubeconfig), context=second_cluster.context
        ),
        encoding="utf-8",
    )
    in_consumer = (f"--cwd={tmp_path}", "--stack", "team")
    clone.pulumi("stack", "init", *in_consumer)
    try:
        clone.pulumi("up", "--yes", "--skip-preview", *in_consumer)
        [job] = [
            job
            for name, job in objects(second_cluster, clone, "jobs.batch.volcano.sh", "-n", NAMESPACE).items()
            if name.startswith("theirs-")
        ]
        assert job["spec"]["queue"] == "research"
        assert job["spec"]["tasks"][0]["replicas"] == 4
        clone.pulumi("up", "--yes", "--expect-no-changes", *in_consumer)
    finally:
        clone.pulumi("destroy", "--yes", "--skip-preview", *in_consumer)


def test_destroy_completes_and_leaves_no_object_of_ours(second_cluster: LocalCluster, clone: Clone) -> None:
    clone.pulumi("destroy", "--yes", "--skip-preview")

    assert set(objects(second_cluster, clone, "namespaces")) == SYSTEM_NAMESPACES
    assert not [name for name in objects(second_cluster, clone, "customresourcedefinitions") if "volcano" in name]
    for kind in ("clusterroles", "clusterrolebindings"):
        assert not [name for name in objects(second_cluster, clone, kind) if "volcano" in name or "athanor" in name]
    assert set(objects(second_cluster, clone, "nodes")) == {second_cluster.node_name}
    assert json.loads(clone.pulumi("stack", "export"))["deployment"].get("resources", []) == []
