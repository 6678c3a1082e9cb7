"""Ranks of a job by its GPUs, and refusals of numbers with which the platform's trainer would leave some unused."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from workloads.accelerators import MigInstances, SharedGpu
from workloads.local_folder import LocalFolder
from workloads.mpi import MPIJobArgs, mpi_shape
from workloads.network_benchmark import Measurement, NetworkBenchmarkArgs, benchmark_job
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs

TRAINER = ("-m", "trainer.train", "--epochs=3")
MPI_TRAINER = ("python3", "-m", "trainer.mpi_example")
SHARES = [SharedGpu(), MigInstances(profile="1g.10gb")]


def _pytorch(gpus, program=TRAINER, **changes) -> PyTorchJobArgs:
    return PyTorchJobArgs(program=program, workers=1, resources=Resources(gpus=gpus), **changes)


def _mpi(gpus, program=MPI_TRAINER, **changes) -> MPIJobArgs:
    return MPIJobArgs(program=program, workers=1, resources=Resources(gpus=gpus), **changes)


@pytest.mark.parametrize(
    ("gpus", "ranks"), [(0, 1), (1, 1), (8, 8), *((share, 1) for share in SHARES)], ids=lambda value: str(value)[:12]
)
def test_each_gpu_has_a_rank_by_default(gpus, ranks):
    args = _pytorch(gpus)
    [worker] = pytorch_shape("train-0123abcd", args).roles
    assert f"--nproc-per-node={ranks}" in worker.command
    assert (worker.processes, len([port for port in worker.ports if port.startswith("metrics")])) == (ranks, ranks)
    of_mpi = _mpi(gpus)
    [launcher, worker] = mpi_shape("train-0123abcd", of_mpi).roles
    assert launcher.annotations["athanor.dev/hostfile"].endswith(f" slots={ranks}\n")
    assert (of_mpi.ranks, worker.processes) == (ranks, ranks)


def test_the_network_benchmark_measures_between_all_gpus():
    args = NetworkBenchmarkArgs(resources=Resources(gpus=8))
    assert benchmark_job("net", Measurement(), args).ranks_per_worker == 8
    for ranks, reason in ((1, "a worker has 8"), (99, "must be 1 to 16")):
        with pytest.raises(RefusalError, match=f"^processes_per_worker = {ranks}: .*{reason}"):
            NetworkBenchmarkArgs(resources=Resources(gpus=8), processes_per_worker=ranks)


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: _pytorch(8, processes_per_worker=1), ("processes_per_worker = 1", "8 GPUs", "--num_gpu=0")),
        (lambda: _pytorch(8, processes_per_worker=4), ("processes_per_worker = 4", "one GPU per rank")),
        (lambda: _pytorch(8, (*TRAINER, "--num_gpu=4")), ("program = '--num_gpu=4'", "a worker has 8 ranks")),
        (lambda: _pytorch(8, (*TRAINER, "--num_gpu", "4")), ("program = '--num_gpu=4'", "omit --num_gpu")),
        (lambda: _pytorch(8, (*TRAINER, "--num-gpu=4")), ("program = '--num_gpu=4'", "a worker has 8 ranks")),
        (
            lambda: _pytorch(8, (*TRAINER, "--num_gpu=None"), processes_per_worker=1),
            ("processes_per_worker = 1", "8 GPUs"),
        ),
        (lambda: _pytorch(0, (*TRAINER, "--num_gpu=1")), ("program = '--num_gpu=1'", "a worker has no GPUs")),
        (lambda: _pytorch(1, (*TRAINER, "--num_gpu=2")), ("program = '--num_gpu=2'", "a worker has 1 GPU.")),
        *(
            (lambda said=said: _pytorch(8, (*TRAINER, *said)), ("is not a number of GPUs", "omit --num_gpu"))
            for said in (("--num_gpu=-1",), ("--num-gpu", "many"), ("--num_gpu=",), ("--num_gpu",))
        ),
        (lambda: _pytorch(8, ("--module", "trainer.train"), processes_per_worker=1), ("processes_per_worker = 1",)),
        (lambda: _mpi(8, slots_per_worker=1), ("slots_per_worker = 1", "8 GPUs")),
        (
            lambda: _mpi(8, launcher=PodArgs(resources=Resources(gpus=1))),
            ("launcher.resources.gpus = 1", "computes nothing"),
        ),
        (lambda: _mpi(1, ("python3", *TRAINER)), ("from torchrun", "use trainer.mpi_example, or a PyTorchJob")),
        (
            lambda: TensorFlowJobArgs(
                program=("python3", "-m", "trainer.tf.parameter_server"), workers=2, resources=Resources(gpus=8)
            ),
            ("resources.gpus = 8", "uses one GPU", "more workers"),
        ),
        (
            lambda: TensorFlowJobArgs(
                program=("python3", "-m", "trainer.tf.parameter_server"),
                workers=2,
                parameter_servers=ParameterServers(),
                chief=PodArgs(resources=Resources(gpus=1)),
            ),
            ("chief.resources.gpus = 1", "computes nothing", "omit it"),
        ),
    ],
)
def test_gpus_that_the_trainer_would_not_use_are_refused(declare, words):
    with pytest.raises(RefusalError) as refused:
        declare()
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize(
    ("program", "changes"),
    [
        (("own.py",), {"processes_per_worker": 1}),  # DataParallel, or processes that it starts itself
        (TRAINER, {"processes_per_worker": 1, "image": "registry.example/own:1"}),
        (TRAINER, {"processes_per_worker": 1, "source": LocalFolder()}),
        ((*TRAINER, "--num_gpu=0"), {"processes_per_worker": 1}),
        ((*TRAINER, "--num-gpu=0"), {"processes_per_worker": 1}),
        ((*TRAINER, "--num_gpu=8", "--num_gpu=1"), {"processes_per_worker": 1}),
        ((*TRAINER, "--num_gpu=8"), {}),
    ],
)
def test_unused_gpus_are_for_those_who_ask_and_for_programs_of_their_own(program, changes):
    assert _pytorch(8, program, **changes).ranks_per_worker == changes.get("processes_per_worker", 8)


def test_parameter_servers_leave_gpus_unused_where_the_program_says_so():
    for program in ("trainer.tf.parameter_server --num_gpu=1", "trainer.tf.multi_worker", "own"):
        words = ("python3", "-m", *program.split())
        assert TensorFlowJobArgs(program=words, workers=2, resources=Resources(gpus=8)).workers == 2
