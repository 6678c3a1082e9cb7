"""Launchers inside jobs that start the processes themselves: found where a command starts one, and nowhere else."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from workloads.batch import BatchJobArgs
from workloads.launchers import launcher_in
from workloads.mpi import MPIJobArgs
from workloads.pytorch import PyTorchJobArgs
from workloads.tensorflow import TensorFlowJobArgs

STARTS = {
    "mpirun": ("mpirun", "python", "train.py"),
    "/opt/hpcx/ompi/bin/mpirun": ("/opt/hpcx/ompi/bin/mpirun", "-np", "16", "python", "train.py"),
    "mpiexec": ("env", "NCCL_DEBUG=INFO", "mpiexec", "-n", "2", "./run"),
    "horovodrun": ("sh", "-c", "cd /examples && horovodrun -np 2 python train.py"),
    "torchrun": ("bash", "-lc", "set -e\nexport A='b; c'\nexec torchrun --nproc-per-node=8 train.py > log"),
    "torch.distributed.run": ("python3.11", "-m", "torch.distributed.run", "train.py"),
    "mpiexec.hydra": ("sh", "-c", "if true; then LD_PRELOAD= mpiexec.hydra -n 2 a; fi"),
}
STARTS_NONE = [
    ("python", "train.py", "--launcher", "mpirun"),
    ("python", "-m", "train", "torch.distributed.run"),
    ("sh", "-c", "echo mpirun; python train.py --launcher=torchrun"),
    ("sh", "-c", "# mpirun\npython train.py 'a; mpirun'"),
    ("sh", "-c", "echo 'never closed; mpirun"),
    ("sh", "mpirun.sh"),
    ("./mpirun-wrapper", "a"),
    ("sh", "-c"),
]


@each_row(("launcher", "command"), STARTS.items())
def test_a_launcher_is_found(launcher, command):
    assert launcher_in(command) == launcher


@each_row("command", STARTS_NONE)
def test_what_only_looks_like_one_is_not(command):
    assert launcher_in(command) is None


@each_row(("launcher", "command"), STARTS.items())
def test_jobs_that_start_the_processes_refuse_it(launcher, command):
    for kind in (MPIJobArgs, TensorFlowJobArgs):
        with pytest.raises(RefusalError) as caught:
            kind(program=command, workers=2)
        assert f"program = {launcher!r}" in str(caught.value)


def test_the_fix_is_what_to_write():
    """Every command of arena's mpijob begins so."""
    with pytest.raises(RefusalError) as caught:
        MPIJobArgs(program=("mpirun", "python", "/benchmarks/tf_cnn_benchmarks.py", "--model", "resnet101"), workers=2)
    assert caught.value.fix == (
        "omit it: program=('python', '/benchmarks/tf_cnn_benchmarks.py', '--model', 'resnet101')"
    )


@each_row(
    ("program", "words"),
    [
        (("python3", "train.py", "-v"), ("program = 'python3'", "omit it: program=('train.py', '-v')")),
        (("python", "-m", "pkg.train"), ("program = 'python'", "omit it: program=('-m', 'pkg.train')")),
        (("python", "-u", "train.py"), ("program = 'python'", 'such as ("train.py"')),
        (("torchrun", "--nproc-per-node=8", "train.py"), ("program = 'torchrun'", "processes_per_worker")),
        (("mpirun", "python", "train.py"), ("program = 'mpirun'",)),
        (("bash", "run.sh"), ("program = 'bash'",)),
        (("./run.sh",), ("program = './run.sh'", "processes_per_worker")),
        (("accelerate", "launch", "x.py"), ("program = 'accelerate'", 'such as ("train.py"')),
        (("/opt/deepspeed", "x.py"), ("program = '/opt/deepspeed'",)),
        (("-m", "torch.distributed.run", "train.py"), ("program = 'torch.distributed.run'",)),
    ],
)
def test_torchrun_is_not_given_what_is_not_a_python_file(program, words):
    with pytest.raises(RefusalError) as caught:
        PyTorchJobArgs(program=program, workers=2)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@each_row("program", [("train.py",), ("-m", "trainer.train"), ("/code/mpirun.py",), ("--no-python", "sh")])
def test_torchrun_is_given_what_it_can_run(program):
    assert PyTorchJobArgs(program=program, workers=2).program == program


def test_a_pod_of_a_batch_may_start_processes_of_its_own():
    assert BatchJobArgs(command=("torchrun", "--standalone", "train.py")).command[0] == "torchrun"
