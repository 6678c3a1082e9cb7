"""Which pod `athanor shell --rank` opens, in the manifests that the kinds of jobs really have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from athanor import command_line
from athanor.runs import command
from athanor.runs.ranks import pod_names_by_rank, pod_of_rank
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.workloads.job_cases import RESOLVED
from workloads.batch import BatchJobArgs, batch_shape
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs, mpi_shape
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs, tensorflow_shape
from workloads.volcano_job import job_manifest

JOB = "train-0a1b2c3d"
CODE = GitSource(repository="https://git.example/a.git", branch="main")
PYTORCH = PyTorchJobArgs(program=("train.py",), workers=3, processes_per_worker=8, source=CODE)
ELASTIC = PyTorchJobArgs(program=("train.py",), workers=3, minimum_workers=1)
MPI = MPIJobArgs(program=("a",), workers=2, slots_per_worker=2)
SERVERS = TensorFlowJobArgs(program=("a",), workers=2, parameter_servers=ParameterServers(), evaluator=PodArgs())
MIRRORED = TensorFlowJobArgs(program=("a",), workers=2)
BATCH = BatchJobArgs(command=("a",), pods=11)
SHAPES = {
    PyTorchJobArgs: lambda args: pytorch_shape(JOB, args),
    MPIJobArgs: lambda args: mpi_shape(JOB, args),
    TensorFlowJobArgs: lambda args: tensorflow_shape(JOB, args),
    BatchJobArgs: batch_shape,
}


def job(args) -> dict:
    return job_manifest("train", JOB, args, SHAPES[type(args)](args), RESOLVED)


class Cluster:
    """A job whose pods run as far as they are named."""

    namespace = "team"

    def __init__(self, args, *running: str) -> None:
        self.job, self.running = job(args), running

    def find(self, _kind: str, _name: str) -> dict:
        return self.job

    def items(self, _kind: str, _selector: str) -> list[dict]:
        return [{"metadata": {"name": f"{JOB}-{pod}"}, "status": {"phase": "Running"}} for pod in self.running]


@each_row(
    ("args", "pods"),
    [
        (PYTORCH, ["worker-0"] * 8 + ["worker-1"] * 8 + ["worker-2"] * 8),
        (MPI, ["worker-0", "worker-0", "worker-1", "worker-1"]),
        (SERVERS, ["chief-0", "worker-0", "worker-1"]),
        (MIRRORED, ["worker-0", "worker-1"]),
        (BATCH, [f"pod-{number}" for number in range(11)]),
    ],
)
def test_a_rank_is_computed_by_one_pod(args, pods):
    assert pod_names_by_rank(job(args)) == [f"{JOB}-{pod}" for pod in pods]


def test_the_pod_of_a_rank_is_found_whichever_others_run():
    assert pod_of_rank(Cluster(PYTORCH, "source-0", "worker-2"), JOB, 17)["metadata"]["name"] == f"{JOB}-worker-2"


@each_row(
    ("cluster", "rank", "words"),
    [
        (Cluster(PYTORCH, "worker-0"), 24, ("--rank = 24: the run has 24 ranks", "use 0 to 23")),
        (Cluster(PYTORCH, "worker-0", "worker-2"), 8, (f"its pod {JOB}-worker-1 does not run", "0-7, 16-23")),
        (Cluster(BATCH, "pod-1"), 10, ("running ranks: 1.",)),
        (Cluster(MPI, "launcher-0"), 0, ("running ranks: none",)),
        (Cluster(PYTORCH), 0, ("is Pending and has no running pod", "wait until it runs")),
        (Cluster(ELASTIC, "worker-0"), 0, ("move between its pods", "--pod")),
    ],
)
def test_a_rank_that_cannot_be_had_is_refused_with_what_there_is(cluster, rank, words):
    with pytest.raises(RefusalError) as caught:
        pod_of_rank(cluster, JOB, rank)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("words", "pod"),
    [(("--rank", "9"), "worker-1"), (("--pod", "2"), "worker-2"), (("--pod", "0"), "worker-0"), ((), "worker-0")],
)
def test_the_commands_open_the_pod_that_is_named(monkeypatch, words, pod):
    opened = []
    cluster = Cluster(PYTORCH, "worker-0", "worker-1", "worker-2")
    monkeypatch.setattr(command, "Cluster", SimpleNamespace(of=lambda _: cluster))
    monkeypatch.setattr(command, "locate", lambda *_: (cluster, JOB))
    for name in ("shell", "forward"):
        monkeypatch.setattr(command, name, lambda _, pod, *__: opened.append(pod["metadata"]["name"]) or 0)
    assert command_line.main(["shell", "train", *words]) == 0
    assert command_line.main(["port-forward", "train", *words, "6006"]) == 0
    assert opened == [f"{JOB}-{pod}"] * 2


def test_a_rank_and_a_pod_are_not_both_named(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["shell", "train", "--pod", "0", "--rank", "1"])
    assert "not allowed with" in capsys.readouterr().err
