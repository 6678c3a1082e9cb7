"""Commands as people paste them: what is kept of a launcher's options, and what is refused."""

from __future__ import annotations

import shlex

import pytest

from athanor.run.mpirun import read_mpi
from athanor.run.pasted import read_program, read_tensorflow, split
from athanor.run.torchrun import read_pytorch
from infra.errors import RefusalError
from tests.tables import each_row


@each_row(
    ("command", "program", "sizes"),
    [
        ("train.py --lr 0.1", "train.py --lr 0.1", {}),
        ("python train.py --lr 0.1", "train.py --lr 0.1", {}),
        ("/usr/bin/python3.11 -u train.py -u", "train.py -u", {}),
        ("python -m package.train --lr 1", "-m package.train --lr 1", {}),
        ("torchrun train.py", "train.py", {}),
        ("torchrun --no_python --nproc-per-node=2 ./a -x", "--no-python ./a -x", {"processes": 2}),
        ("--no-python ./run.sh", "--no-python ./run.sh", {}),
        ("torchrun --nnodes=2 --nproc_per_node 8 a.py --nnodes 9", "a.py --nnodes 9", {"workers": 2, "processes": 8}),
        ("torchrun --standalone --master-port 1 --rdzv-id=x -m a.b", "-m a.b", {}),
        ("python -m torch.distributed.run --nproc-per-node=2 --module a", "-m a", {"processes": 2}),
    ],
)  # fmt: skip
def test_pytorch_keeps_the_script_and_the_sizes(command, program, sizes):
    pasted = read_pytorch(shlex.split(command))
    assert (shlex.join(pasted.program), pasted.sizes) == (program, sizes)


@each_row(
    ("command", "program", "sizes"),
    [
        ("python train.py", "python train.py", {}),
        ("mpirun -np 16 python train.py -np 3", "python train.py -np 3", {"ranks": 16}),
        ("mpirun -n 16 -N 8 --hostfile /etc/hosts -bind-to none -map-by slot a", "a", {"ranks": 16, "processes": 8}),
        ("mpiexec --allow-run-as-root --np=4 ./a.out", "./a.out", {"ranks": 4}),
        ("horovodrun -np 16 -H a:8,b:8 python train.py -np 3", "python train.py -np 3", {"ranks": 16}),
        ("/usr/bin/horovodrun --verbose --mpi --num-proc=2 -p 22 --hostfile h ./a.out", "./a.out", {"ranks": 2}),
        ("python3 -m horovod.runner.launch -np 2 python a.py", "python a.py", {"ranks": 2}),
    ],
)  # fmt: skip
def test_mpi_keeps_the_program_and_the_sizes(command, program, sizes):
    pasted = read_mpi(shlex.split(command))
    assert (shlex.join(pasted.program), pasted.sizes) == (program, sizes)


@each_row(
    ("given", "words"),
    [
        (["mpirun -np 2 python 'a b.py' --x=\"c d\""], ("mpirun", "-np", "2", "python", "a b.py", "--x=c d")),
        (["python", "a b"], ("python", "a b")),
        (["python", "a;b", "$X", ""], ("python", "a;b", "$X", "")),
        (["train.py"], ("train.py",)),
    ],
)
def test_a_command_in_quotes_is_its_words(given, words):
    assert split(given) == words


def test_variables_and_settings_of_mpirun_are_passed_on():
    pasted = read_mpi(shlex.split("mpirun -x A=1=2 -x LD_LIBRARY_PATH -mca pml ob1 --mca btl ^openib python train.py"))
    assert pasted.env == {"A": "1=2"}
    assert pasted.options == ("-mca", "pml", "ob1", "--mca", "btl", "^openib")


@each_row(
    ("command", "left_out"),
    [
        ('mpirun -mca plm_rsh_args "-p 12345" a', ["-mca plm_rsh_args '-p 12345'"]),
        ("mpirun --prtemca plm_ssh_agent rsh --mca plm_rsh_no_tree_spawn 0 --mca plm slurm a",
         ["--prtemca plm_ssh_agent rsh", "--mca plm_rsh_no_tree_spawn 0", "--mca plm slurm"]),
        ("mpirun -mca orte_default_hostfile /h -mca prte_default_dash_host b a",
         ["-mca orte_default_hostfile /h", "-mca prte_default_dash_host b"]),
        ("mpirun -mca btl_tcp_if_exclude lo,docker0 -mca oob_tcp_if_include eth0 -mca prte_if_include eth1 a",
         ["-mca btl_tcp_if_exclude lo,docker0", "-mca oob_tcp_if_include eth0", "-mca prte_if_include eth1"]),
        ("mpirun -x OMPI_MCA_plm_rsh_args=-p -x PRTE_MCA_prte_if_exclude=lo a",
         ["-x OMPI_MCA_plm_rsh_args=-p", "-x PRTE_MCA_prte_if_exclude=lo"]),
        ("OMPI_MCA_plm_rsh_agent=rsh mpirun a", ["OMPI_MCA_plm_rsh_agent=rsh"]),
        ("mpirun -H a:8,b:8 --hostfile=/h --bind-to l3cache a", ["-H a:8,b:8", "--hostfile=/h", "--bind-to l3cache"]),
        ("mpirun --bind-to=core:overload-allowed -map-by slot a", ["--bind-to=core:overload-allowed", "-map-by slot"]),
        ("horovodrun -np 2 -p 12345 --network-interface eth0 a", ["-p 12345", "--network-interface eth0"]),
    ],
)  # fmt: skip
def test_what_would_break_the_start_of_an_mpi_job_is_left_out_and_named(command, left_out):
    pasted = read_mpi(shlex.split(command))
    assert list(pasted.left_out) == left_out
    assert (pasted.program, pasted.options, pasted.env) == (("a",), (), {})


@each_row(
    ("words", "binding"),
    [("-bind-to none", "none"), ("--bind-to=core", "core"), ("--bind-to socket", "socket"), ("", None)],
)
def test_what_ranks_are_pinned_to_is_taken_over(words, binding):
    pasted = read_mpi(shlex.split(f"mpirun {words} a"))
    assert (pasted.bind_to, pasted.left_out) == (binding, ())


def test_other_settings_of_mpirun_are_passed_on_and_options_of_torchrun_named():
    words = "mpirun -mca plm_base_verbose 5 -mca btl_tcp_links 2 -x NCCL_SOCKET_IFNAME=eth0 -x OMPI_MCA_pml=ob1 a"
    pasted = read_mpi(shlex.split(words))
    assert pasted.options == ("-mca", "plm_base_verbose", "5", "-mca", "btl_tcp_links", "2")
    assert (pasted.env, pasted.left_out) == ({"NCCL_SOCKET_IFNAME": "eth0", "OMPI_MCA_pml": "ob1"}, ())
    assert read_pytorch(["torchrun", "--rdzv-id=x", "--master-port", "1", "a.py"]).left_out == (
        "--rdzv-id=x",
        "--master-port 1",
    )


@each_row(
    ("command", "env"),
    [
        ("A=1 B_2='x y=z' {}", {"A": "1", "B_2": "x y=z"}),
        ("env A=1 {}", {"A": "1"}),
        ("env {}", {}),
        ("A= {}", {"A": ""}),
        ("{} A=1", {}),
    ],
)
def test_variables_in_front_of_a_command_are_those_of_the_job(command, env):
    for read in (read_program, read_pytorch, read_mpi, read_tensorflow):
        pasted = read(shlex.split(command.format("./a.py")))
        assert pasted.env == env, read
        assert pasted.program == ("./a.py", *(["A=1"] if command.endswith("A=1") else [])), read


def test_variables_in_front_of_a_launcher_are_those_of_the_job():
    pasted = read_mpi(shlex.split("A=1 B=2 mpirun -np 2 -x B=3 python a.py"))
    assert (pasted.env, pasted.sizes, pasted.program) == ({"A": "1", "B": "3"}, {"ranks": 2}, ("python", "a.py"))
    pasted = read_pytorch(shlex.split("A=1 torchrun --nnodes 2 a.py"))
    assert (pasted.env, pasted.sizes, pasted.program) == ({"A": "1"}, {"workers": 2}, ("a.py",))


def test_what_only_env_or_no_shell_would_take_for_variables_stays():
    assert read_program(["env", "-i", "A=1", "x"]).program == ("env", "-i", "A=1", "x")
    assert read_program(["1A=1", "x"]).program == ("1A=1", "x")
    assert read_program(["env", "A.B=1", "x"]).env == {"A.B": "1"}  # which is refused as --env A.B=1 is


@each_row("words", [["PASSWORD=hunter2"], ["env", "PASSWORD=hunter2"], ["env"]])
def test_variables_alone_are_refused_without_their_values(words):
    with pytest.raises(RefusalError, match="starts nothing") as refusal:
        read_program(words)
    assert "hunter2" not in str(refusal.value)


@each_row(
    ("read", "command", "words"),
    [
        (read_pytorch, "torchrun --log-dir a ./a", ("--log-dir", "omit it")),
        (read_pytorch, "torchrun --nnodes 1:4 a.py", ("--nnodes 1:4", "must be a number")),
        (read_pytorch, "torchrun --nnodes", ("has no value",)),
        (read_pytorch, "torchrun --nnodes 2", ("starts nothing",)),
        (read_mpi, "mpirun --report-bindings a", ("--report-bindings", "without mpirun")),
        (read_pytorch, "accelerate launch --num_processes 8 x.py", ("accelerate", "python x.py", "--processes")),
        (read_pytorch, "/opt/bin/deepspeed x.py --deepspeed", ("deepspeed", "python x.py", "--workers")),
        (read_pytorch, "python -m accelerate.commands.launch x.py", ("'accelerate'", "python x.py")),
        (read_pytorch, "mpirun -np 2 python x.py", ("mpirun", "add --kind mpi")),
        (read_pytorch, "horovodrun -np 2 python x.py", ("horovodrun", "add --kind mpi")),
        (read_pytorch, "python -m horovod.runner.launch -np 2 a", ("horovodrun", "add --kind mpi")),
        (
            read_pytorch,
            "./run.sh --lr 1",
            ("./run.sh", "a Python file or module", "--kind batch", "torchrun --no-python"),
        ),
        (read_pytorch, "nvidia-smi", ("nvidia-smi", "--kind batch")),
        (read_pytorch, "python -c 1", ("'python'", "python train.py")),
        (read_mpi, "horovodrun -np 2 --timeline-filename a python b", ("--timeline-filename", "--env HOROVOD_")),
        (read_mpi, "horovodrun -np 2", ("horovodrun", "starts nothing")),
        (read_mpi, "sh -c 'horovodrun -np 2 python a.py'", ("horovodrun", "--workers and --processes")),
        (read_mpi, "accelerate launch x.py", ("accelerate", "--workers and --processes")),
        (read_mpi, "mpirun -np 2", ("starts nothing",)),
        (read_mpi, "mpirun -np 1 python a.py : -np 1 python b.py", ("several programs in one mpirun",)),
        (read_mpi, "mpirun -mca pml", ("has no value",)),
        (read_mpi, "-m train", ("'-m'", "an option of mpirun", "python3 -m")),
        (read_pytorch, "torchrun bash run.sh", ("'bash'", "write python train.py", "torchrun --no-python")),
        (read_pytorch, "torchrun python a.py", ("'python'", "write python a.py or")),
        (read_pytorch, "torchrun mpirun -np 2 a", ("'mpirun'", "add --kind mpi")),
        (read_pytorch, "-m torch.distributed.launch", ("starts nothing",)),
        (read_tensorflow, "sh -c 'mpirun -np 2 a'", ("'mpirun'", "one TF_CONFIG", "--kind mpi for mpirun")),
    ],
)
def test_what_cannot_be_passed_on_is_refused(read, command, words):
    with pytest.raises(RefusalError) as caught:
        read(shlex.split(command))
    assert all(word in str(caught.value) for word in words), str(caught.value)
