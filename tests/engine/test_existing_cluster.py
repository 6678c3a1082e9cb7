"""The same program on a cluster of the user's own: a second one, named by kubeconfig and context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml

from tests.fixtures.clone import Clone, make_clone
from tests.fixtures.engine_project import EngineProject
from tests.fixtures.nowhere import reaching_nobody
from tests.waiting import wait_until
from tools.images import ensure_platform_images
from tools.local_cluster import LocalCluster
from tools.process import CommandError
from tools.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "team-a"
SYSTEM_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}
SETTINGS = {
    "namespace": NAMESPACE,
    "storage": {"access_mode": "ReadWriteOnce"},
    # This cluster has no class of disks; what watches the workloads runs in the tests of `make up`.
    "monitoring": {"kind": "none"},
    "scheduling": {"queues": [{"name": "research"}, {"name": "production", "weight": 3}]},
}


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
    cluster = {
        "kubeconfig": str(second_cluster.kubeconfig),
        "context": second_cluster.context,
        "simulated_nodes": [{"instance_type": "ecs.ebmgn7e.32xlarge", "count": 2}],
    }
    clone.configure("local", cluster=cluster, **SETTINGS)
    clone.up()
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
        present = objects(second_cluster, clone, "nodes", "-l", "athanor.dev/simulated=true").values()
        return [
            node
            for node in present
            if {"type": "Ready", "status": "True"}.items()
            <= {**next(c for c in node["status"]["conditions"] if c["type"] == "Ready")}.items()
        ]

    nodes = wait_until(
        lambda: present if len(present := ready_nodes()) == 2 else None, "two simulated nodes to be ready"
    )
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}


def test_the_settings_file_does_not_bind_the_state_to_this_machine(clone: Clone) -> None:
    assert str(clone.home) not in clone.pulumi("stack", "export")


def test_refresh_finds_no_difference(clone: Clone) -> None:
    clone.pulumi("refresh", "--yes", "--expect-no-changes")


def test_an_object_deleted_behind_our_back_comes_back_and_nothing_else_changes(
    second_cluster: LocalCluster, clone: Clone
) -> None:
    on(second_cluster, clone, "delete", "networkpolicy", "default-deny", "-n", NAMESPACE)

    printed = clone.up("--refresh")

    assert "default-deny" in objects(second_cluster, clone, "networkpolicies", "-n", NAMESPACE)
    resources = printed.partition("Resources:")[2].partition("Duration:")[0]
    assert resources.split()[:3] == ["+", "1", "created"]
    assert resources.split()[4:] == ["unchanged"]


WORKLOADS = """
import os, pulumi, pulumi_kubernetes as kubernetes
from infra.platform import Platform
from workloads.batch import BatchJob, BatchJobArgs
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.mpi import MPIJob, MPIJobArgs

provider = kubernetes.Provider(
    "cluster", kubeconfig=os.environ["TEST_KUBECONFIG"], context=os.environ["TEST_CONTEXT"]
)
platform = Platform(
    provider=provider, namespace="team-a", queue="research", data_claim="data", output_claim="output",
    trainer_image="registry.invalid/none:1",
)
"""
A_BATCH = 'BatchJob("same", platform, BatchJobArgs(command=("true",)))\n'
AN_MPI_JOB = 'MPIJob("same", platform, MPIJobArgs(program=("./train",), workers=1))\n'
A_SERVICE = 'TorchScriptService("same", platform, TorchScriptServiceArgs(model="digits", replicas=2))\n'


@pytest.fixture(scope="class")
def projects(
    second_cluster: LocalCluster, clone: Clone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, EngineProject]]:
    """Two projects, of which the first has declared a job and a service of one name."""
    assert clone.outputs()["namespace"] == NAMESPACE
    kubeconfig = yaml.safe_load(second_cluster.kubeconfig.read_text(encoding="utf-8"))
    [server] = {urlsplit(each["cluster"]["server"]).hostname for each in kubeconfig["clusters"]}
    variables = {
        "TEST_KUBECONFIG": str(second_cluster.kubeconfig),
        "TEST_CONTEXT": second_cluster.context,
        **reaching_nobody(server),
    }
    by_owner = {
        name: EngineProject.create(tmp_path_factory.mktemp(name) / name, "", "kubernetes", variables, name=name)
        for name in ("ours", "theirs")
    }
    by_owner["ours"].declare(WORKLOADS + A_BATCH + A_SERVICE)
    by_owner["ours"].up()
    try:
        yield by_owner
    finally:
        by_owner["ours"].run("destroy", "--yes", "--skip-preview")


class TestTwoProjects:
    """Workloads of one name on one platform: side by side where they can be, refused where not, never adopted."""

    def test_a_job_and_a_service_of_one_name(
        self, second_cluster: LocalCluster, clone: Clone, projects: dict[str, EngineProject]
    ) -> None:
        assert projects
        policies = objects(second_cluster, clone, "networkpolicies", "-n", NAMESPACE)
        assert {name.rpartition(".")[0] for name in policies} >= {"job.same", "service.same"}

    def test_what_belongs_to_another_project_is_refused_and_stays_as_it_is(
        self, second_cluster: LocalCluster, clone: Clone, projects: dict[str, EngineProject]
    ) -> None:
        kinds = ("deployments", "services", "poddisruptionbudgets")

        def ours() -> list[tuple[object, ...]]:
            metadata = [objects(second_cluster, clone, kind, "-n", NAMESPACE)["same"]["metadata"] for kind in kinds]
            return [tuple(each.get(key) for key in ("uid", "generation", "labels")) for each in metadata]

        before = ours()
        projects["theirs"].declare(WORKLOADS + A_SERVICE)
        with pytest.raises(CommandError) as caught:
            projects["theirs"].up()
        assert ".metadata.labels.athanor.dev/owner" in str(caught.value)
        assert ours() == before

    def test_a_job_of_the_same_name_has_objects_of_its_own(
        self, second_cluster: LocalCluster, clone: Clone, projects: dict[str, EngineProject]
    ) -> None:
        kinds = ("networkpolicies", "jobs.batch.volcano.sh")
        projects["theirs"].run("destroy", "--yes", "--skip-preview")
        before = [set(objects(second_cluster, clone, kind, "-n", NAMESPACE)) for kind in kinds]
        projects["theirs"].declare(WORKLOADS + A_BATCH)
        projects["theirs"].up()
        both = [set(objects(second_cluster, clone, kind, "-n", NAMESPACE)) for kind in kinds]
        assert [len(after - earlier) for after, earlier in zip(both, before, strict=True)] == [1, 1]
        projects["theirs"].run("destroy", "--yes", "--skip-preview")
        assert [set(objects(second_cluster, clone, kind, "-n", NAMESPACE)) for kind in kinds] == before

    def test_another_kind_of_job_takes_the_old_ones_place(
        self, second_cluster: LocalCluster, clone: Clone, projects: dict[str, EngineProject]
    ) -> None:
        before = objects(second_cluster, clone, "networkpolicies", "-n", NAMESPACE)
        projects["ours"].declare(WORKLOADS + AN_MPI_JOB + A_SERVICE)
        said = projects["ours"].up()
        policies = objects(second_cluster, clone, "networkpolicies", "-n", NAMESPACE)
        uids = [
            {name: each["metadata"]["uid"] for name, each in objects_by_name.items()}
            for objects_by_name in (before, policies)
        ]
        assert uids[0] == uids[1]
        jobs = objects(second_cluster, clone, "jobs.batch.volcano.sh", "-n", NAMESPACE, "-l", "athanor.dev/job=same")
        assert [job["metadata"]["labels"]["athanor.dev/kind"] for job in jobs.values()] == ["MPIJob"]
        resources = said.partition("Resources:")[2]
        assert "1 replaced" in resources, "the old job goes first: it may hold the GPUs that the new one needs"
        assert "deleted" not in resources


def test_destroy_completes_and_leaves_no_object_of_ours(second_cluster: LocalCluster, clone: Clone) -> None:
    clone.pulumi("destroy", "--yes", "--skip-preview")

    assert set(objects(second_cluster, clone, "namespaces")) == SYSTEM_NAMESPACES
    assert not [name for name in objects(second_cluster, clone, "customresourcedefinitions") if "volcano" in name]
    for kind in ("clusterroles", "clusterrolebindings"):
        assert not [name for name in objects(second_cluster, clone, kind) if "volcano" in name or "athanor" in name]
    assert set(objects(second_cluster, clone, "nodes")) == {second_cluster.node_name}
    assert json.loads(clone.pulumi("stack", "export"))["deployment"].get("resources", []) == []
