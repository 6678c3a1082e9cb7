"""Every example of docs/jobs.md, run by another team's program on the local environment."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import tritonclient.http as triton

from tests.documentation import job_examples, own_script
from tests.fixtures.git_pod import LIBRARY, git_pod
from tests.fixtures.git_server import Repository
from tests.fixtures.team import Team, phase
from tests.waiting import KUBECTL_TIMEOUT, wait_until
from trainer.training import digits
from workloads.tensorflow import cluster_spec, tf_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.clone import Clone

NEEDS_MORE_THAN_THIS_NODE = {"resnet50"}
"""Examples for machines with GPUs; tests/unit/workloads renders them."""
TRAIN_FROM_GIT = """
import os, pathlib
from library.saying import SAYING
print("cloned code runs in", os.getcwd())
pathlib.Path("/data/output", os.environ["ATHANOR_JOB"], "ran.txt").write_text(SAYING)
"""

TOKEN = "b0bafe77-a-token-of-the-test"
OWN_SECRET_AND_VOLUMES = f"""
import pulumi
from athanor import BatchJob, BatchJobArgs, ClaimMount, Resources

BatchJob("secret-and-volumes", platform, BatchJobArgs(
    command=("sh", "-c", 'mkdir -p "$FOLDER" && printf %s "$TOKEN" | sha256sum > "$FOLDER/seen.txt" && ls /samples'),
    env={{"FOLDER": "/results/secret-and-volumes"}},
    secret_env={{"TOKEN": pulumi.Output.secret("{TOKEN}")}},
    volumes=(ClaimMount(claim="output", path="/results"), ClaimMount(claim="data", path="/samples", read_only=True)),
    resources=Resources(cpu="100m", memory="256Mi"),
))
"""
"""A secret of the program's and more places for volumes that every pod has."""


@pytest.fixture(scope="module")
def git_server(served: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """The server of the examples, with the code of a job, which uses a commit of a submodule that is not the latest."""
    with git_pod(served, tmp_path_factory.mktemp("git")) as repository:
        library = Repository(repository.folder.with_name(LIBRARY))
        named = library.commit({"saying.py": 'SAYING = "of the submodule"'})
        library.commit({"saying.py": 'SAYING = "of a later commit"'})
        repository.commit({"train.py": TRAIN_FROM_GIT})
        repository.add_submodule("library", f"../{LIBRARY}", named)
        yield repository


@pytest.fixture(scope="module")
def finished(team: Team, git_server: Repository) -> dict[str, dict[str, Any]]:
    """All examples after one `pulumi up`, when every job has ended."""
    assert git_server.head(), "one of the examples clones it"
    team.clone.make("image", "FRAMEWORK=tensorflow")
    examples = [example for example in job_examples() if example.name not in NEEDS_MORE_THAN_THIS_NODE]
    (team.folder / "my-code").mkdir()
    (team.folder / "my-code" / "train.py").write_text(own_script(), encoding="utf-8")
    team.declare("\n".join([*(example.code for example in examples), OWN_SECRET_AND_VOLUMES]))
    team.up()

    def all_ended() -> bool:
        jobs = team.jobs()
        return len(jobs) > len(examples) and all(
            phase(job) in {"Completed", "Failed", "Aborted"} for job in jobs.values()
        )

    wait_until(
        all_ended,
        lambda: str({name: phase(job) for name, job in team.jobs().items()}),
        # What the kubelet and Volcano say of any of their pods: they start, get ready, end, are recreated.
        moves=lambda: {pod["metadata"]["resourceVersion"] for pod in team.clone.objects("pods")},
    )
    return team.jobs()


def logs(clone: Clone, job: str) -> str:
    return clone.make("logs", f"JOB={job}")


def output(clone: Clone, job: dict[str, Any], *parts: str) -> Path:
    return (clone.home / "local" / "volumes" / "output").joinpath(job["metadata"]["name"], *parts)


EXPECTED = [
    "digits-ddp", "digits-elastic", "digits-mpi", "digits-ps", "digits-mirrored", "digits-data",
    "network-shared-eni", "sweep-0", "sweep-1", "from-git", "from-git-ssh", "from-folder",
    "digits-sharded", "secret-and-volumes",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_completes(served: Clone, finished: dict[str, dict[str, Any]], name: str) -> None:
    assert phase(finished[name]) == "Completed", served.make("why", f"JOB={name}", check=False) + logs(served, name)


def test_no_example_is_forgotten(finished: dict[str, dict[str, Any]]) -> None:
    assert set(finished) == {*EXPECTED, "digits-training"}


@pytest.mark.usefixtures("finished")
def test_mpirun_reduces_across_pods(served: Clone) -> None:
    assert "mpi: sum of 2 ranks on 2 hosts is 1" in logs(served, "digits-mpi")


@pytest.mark.parametrize("name", ["digits-ps", "digits-mirrored"])
def test_tensorflow_learns(served: Clone, finished: dict[str, dict[str, Any]], name: str) -> None:
    result = json.loads(output(served, finished[name], "result.json").read_text(encoding="utf-8"))
    assert result["accuracy"] >= 0.5, result


@pytest.mark.parametrize("name", ["digits-ps", "digits-mirrored"])
def test_tf_config_is_what_the_pods_see(served: Clone, finished: dict[str, dict[str, Any]], name: str) -> None:
    job = finished[name]
    replicas = {task["name"]: task["replicas"] for task in job["spec"]["tasks"]}
    cluster = cluster_spec(job["metadata"]["name"], replicas, 2222)
    pods = served.objects("pods", f"athanor.dev/job={name}")
    assert pods
    for pod in pods:
        seen = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
        role = pod["metadata"]["labels"]["athanor.dev/role"]
        assert seen["TF_CONFIG"] == tf_config(cluster, role, int(seen["VC_TASK_INDEX"]))


@pytest.mark.parametrize("name", ["from-git", "from-git-ssh"])
def test_the_code_came_from_git_with_its_submodule_and_the_commit_is_known(
    served: Clone, finished: dict[str, dict[str, Any]], git_server: Repository, name: str
) -> None:
    job = finished[name]
    assert output(served, job, "ran.txt").read_text(encoding="utf-8") == "of the submodule"
    record = json.loads(output(served, job, "source.json").read_text(encoding="utf-8"))
    assert record["commit"] == git_server.head()


@pytest.mark.usefixtures("finished")
def test_a_secret_of_the_program_reaches_the_pod_and_nothing_that_can_be_read(served: Clone, team: Team) -> None:
    written = served.home / "local" / "volumes" / "output" / "secret-and-volumes" / "seen.txt"
    assert written.read_text(encoding="utf-8").split()[0] == hashlib.sha256(TOKEN.encode()).hexdigest()
    assert TOKEN not in served.pulumi("stack", "export", *team.words)
    objects = served.kubectl("get", "pods,jobs.batch.volcano.sh", "-n", "athanor", "-o", "yaml")
    assert TOKEN not in objects + logs(served, "secret-and-volumes")


@pytest.mark.usefixtures("finished")
def test_the_network_benchmark_prints_one_table(served: Clone) -> None:
    printed = logs(served, "network-shared-eni")
    assert re.search(r"1 MiB\s+[\d.]+\s+[\d.]+\s+[\d.]+", printed), printed
    assert "shared-eni" in printed


@pytest.mark.usefixtures("finished")
def test_status_lists_every_kind(served: Clone) -> None:
    printed = served.make("status")
    for kind in ("PyTorchJob", "MPIJob", "TensorFlowJob", "BatchJob"):
        assert kind in printed


@pytest.mark.usefixtures("finished")
def test_a_second_up_changes_nothing(team: Team) -> None:
    team.clone.pulumi("up", "--yes", "--expect-no-changes", *team.words)


SERVICE = """
from workloads.canary import Canary
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.shadow import Shadow

TorchScriptService("swept", platform, TorchScriptServiceArgs(
    model="sweep", version=1, canary=Canary(version=2, percent=50), replicas=2,
    shadow=Shadow(version=2, percent=100), resources=Resources(cpu="100m", memory="1Gi"),
))
"""


@pytest.mark.usefixtures("finished")
def test_two_versions_share_a_service(served: Clone, team: Team) -> None:
    """The sweep has exported two versions of one model."""
    team.declare(SERVICE)
    team.up()
    for deployment in ("swept", "swept-canary", "swept-shadow"):
        served.kubectl("rollout", "status", f"deployment/{deployment}", "-n", "athanor", KUBECTL_TIMEOUT)
    images = digits.from_source("held_out").images[:1]
    tensor = triton.InferInput("image", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)

    def versions(service: str) -> set[str]:
        address = served.object("services", service)
        answered: set[str] = set()
        for _ in range(40):  # a connection each: it is connections that the Service distributes
            client = triton.InferenceServerClient(f"{address['spec']['clusterIP']}:8000")
            answered.add(client.infer("sweep", [tensor]).get_response()["model_version"])
            client.close()
        return answered

    # A pod that has just become ready gets no connection before kube-proxy knows of it.
    wait_until(lambda: versions("swept") == {"1", "2"}, "both versions to answer")
    assert versions("swept-stable") == {"1"}
    assert versions("swept-canary") == {"2"}

    def compared() -> int:
        [stable] = served.objects("pods", "athanor.dev/service=swept,athanor.dev/track=stable")
        with urllib.request.urlopen(f"http://{stable['status']['podIP']}:8002/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        outcomes = re.findall(r'athanor_shadow_requests\{outcome="(?:equal|different)",.*\} (\d+)', metrics)
        return sum(map(int, outcomes))

    wait_until(lambda: bool(versions("swept-stable") and compared()), "the shadow's answers to be compared")
