"""From a command line to the typed classes, and back to a program that declares the same."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from athanor.command_line import parser
from athanor.run import program_text
from athanor.run.command import estimate
from athanor.run.description import Description, describe
from athanor.runs.cluster import Cluster
from infra.errors import RefusalError
from infra.instance_types import instance_type
from infra.offers import PlatformOffers
from infra.outputs import PlatformOutputs
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import group, job, priority_class, snapshot
from tests.unit.workloads.job_cases import gpu_pool, plain_platform
from workloads.batch import BatchJobArgs
from workloads.egress import Egress
from workloads.git_source import GitSource
from workloads.job_secrets import SecretFiles
from workloads.local_folder import LocalFolder
from workloads.mpi import MPIJobArgs
from workloads.placement import Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs

if TYPE_CHECKING:
    from athanor.inspection.objects import Snapshot
    from infra.platform import Platform


@pytest.fixture(autouse=True)
def _in_a_folder_with_code(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("print(1)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def _described(words: str) -> Description:
    return describe(parser().parse_args(["run", *shlex.split(words)]))


CLUSTER = Cluster(where=(), context="dev", namespace="ml", server="https://192.0.2.1:6443")
ALL_OPTIONS = (
    "--workers 2 --gpus 8 --elastic 1 --pool train --queue research --priority high --env A=b=c --image own:1"
    " -- torchrun --nproc-per-node=8 train.py"
)
CASES = [
    (
        "-- python train.py --lr 0.1",
        PyTorchJobArgs(program=("train.py", "--lr", "0.1"), workers=1, source=LocalFolder()),
    ),
    (
        ALL_OPTIONS,
        PyTorchJobArgs(
            program=("train.py",), workers=2, minimum_workers=1, processes_per_worker=8, source=LocalFolder(),
            resources=Resources(gpus=8), pool="train", queue="research", priority_class="high", env={"A": "b=c"},
            image="own:1",
        ),
    ),
    (
        "--kind mpi --workers 2 --gpus 8 -- mpirun -np 16 -x A=1 -mca pml ob1 python train.py",
        MPIJobArgs(
            program=("python", "train.py"), workers=2, source=LocalFolder(),
            resources=Resources(gpus=8), env={"A": "1"}, mpirun_options=("-mca", "pml", "ob1"),
        ),
    ),
    (
        "--kind mpi --workers 2 -- mpirun --bind-to core -np 4 python train.py",
        MPIJobArgs(
            program=("python", "train.py"), workers=2, slots_per_worker=2, source=LocalFolder(), bind_to="core",
        ),
    ),
    (
        "--kind mpi --workers 2 --cpu 4 --memory 2Gi -- mpirun -np 8 ./a.out",
        MPIJobArgs(
            program=("./a.out",), workers=2, slots_per_worker=4, source=LocalFolder(),
            resources=Resources(cpu="4", memory="2Gi"),
        ),
    ),
    (
        "--kind tensorflow --workers 3 -- python train.py",
        TensorFlowJobArgs(program=("python", "train.py"), workers=3, source=LocalFolder()),
    ),
    (
        "--requirements train.py -- python train.py",
        PyTorchJobArgs(program=("train.py",), workers=1, source=LocalFolder(), requirements="train.py"),
    ),
    (
        "--max-restarts 3 -- python train.py",
        PyTorchJobArgs(program=("train.py",), workers=1, source=LocalFolder(), max_restarts=3),
    ),
    (
        "--deadline 2h -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), deadline_seconds=7200, max_restarts=0
        ),
    ),
    ("--no-code -- python /app/train.py", PyTorchJobArgs(program=("/app/train.py",), workers=1)),
    (
        "--prepare 'pip install --user -r requirements.txt' --cache resnet -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), cache="resnet",
            prepare=("pip", "install", "--user", "-r", "requirements.txt"),
        ),
    ),
    (
        "--prepare 'cd data && sh get.sh > log' -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), prepare=("sh", "-c", "cd data && sh get.sh > log")
        ),
    ),
    (
        "--volume imagenet:/imagenet:ro --volume scratch:/scratch -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(),
            volumes=(
                ClaimMount(claim="imagenet", path="/imagenet", read_only=True),
                ClaimMount(claim="scratch", path="/scratch"),
            ),
        ),
    ),
    (
        "--kind mpi --workers=2 --gpus=8 'mpirun -np 16 python train.py'",
        MPIJobArgs(
            program=("python", "train.py"), workers=2, source=LocalFolder(),
            resources=Resources(gpus=8),
        ),
    ),
    (
        "--kind mpi --workers 2 --gpus 8 -- horovodrun -np 16 -H a:8,b:8 python train.py",
        MPIJobArgs(
            program=("python", "train.py"), workers=2, source=LocalFolder(),
            resources=Resources(gpus=8),
        ),
    ),
    (
        "--egress internet --egress 192.0.2.7/32:443,5432 -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(),
            egress=(Egress(to="internet"), Egress(to="192.0.2.7/32", ports=(443, 5432))),
        ),
    ),
    (
        "--run-as-user 1000 --writable-root -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), run_as_user=1000, read_only_root=False
        ),
    ),
    (
        "--secret wandb --secret gcs-key:/secrets/gcs -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(),
            secrets=("wandb",), secret_files=(SecretFiles(secret="gcs-key", path="/secrets/gcs"),),
        ),
    ),
    (
        "--env A=3 --prepare 'C=1 sh data' 'A=1 B=2 python train.py'",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), env={"A": "3", "B": "2"},
            prepare=("env", "C=1", "sh", "data"),
        ),
    ),
    (
        "--kind batch --workers 4 -- sh -c 'echo $VC_TASK_INDEX'",
        BatchJobArgs(command=("sh", "-c", "echo $VC_TASK_INDEX"), pods=4, source=LocalFolder()),
    ),
    (
        (
            "--gpus 2 --shared-memory 12Gi --selector gpu=a100 --selector zone= --toleration a.b/c=d:NoSchedule "
            "--toleration spot:NoExecute --toleration any --toleration x= -- python train.py"
        ),
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=LocalFolder(), resources=Resources(gpus=2, shared_memory="12Gi"),
            node_labels={"gpu": "a100", "zone": ""},
            tolerations=(
                Toleration(key="a.b/c", value="d", effect="NoSchedule"), Toleration(key="spot", effect="NoExecute"),
                Toleration(key="any"), Toleration(key="x", value=""),
            ),
        ),
    ),
    (
        "--kind tensorflow --workers 4 --ps 2 --ps-memory 4Gi -- python train.py",
        TensorFlowJobArgs(
            program=("python", "train.py"), workers=4, source=LocalFolder(),
            parameter_servers=ParameterServers(replicas=2, resources=Resources(memory="4Gi")),
        ),
    ),
    (
        "--git https://git.example/team/a.git -- python train.py",
        PyTorchJobArgs(program=("train.py",), workers=1, source=GitSource("https://git.example/team/a.git")),
    ),
    (
        "--git git@git.example:team/a.git@fix/#12 --git-secret key --git-folder code -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1,
            source=GitSource("git@git.example:team/a.git", branch="fix/#12", secret="key", subdirectory="code"),
        ),
    ),
    (
        "--git ssh://git@git.example:2222/a@tag:v1@2 --git-secret key -- python train.py",
        PyTorchJobArgs(
            program=("train.py",), workers=1, source=GitSource("ssh://git@git.example:2222/a", tag="v1@2", secret="key")
        ),
    ),
    (
        f"--git https://git.example/a@{'0a' * 20} -- python train.py",
        PyTorchJobArgs(program=("train.py",), workers=1, source=GitSource("https://git.example/a", commit="0a" * 20)),
    ),
]  # fmt: skip


@each_row(("words", "args"), CASES)
def test_the_command_line_says_what_the_classes_take(words, args):
    assert _described(words).args == args


@each_row(("words", "args"), CASES)
def test_the_printed_program_declares_the_same_job(words, args):
    described = _described(f"--name same {words}")

    def direct() -> None:
        described.declare("same", _platform(), args)

    expected = _objects(direct)
    for text in (
        program_text.program_in_stack(described, "organization/athanor/prod"),
        program_text.program_in_cluster(described, CLUSTER, None),
    ):
        head, names, _place, code = text.split("\n\n", 3)
        scope = {}
        exec(f"{head}\n{names}", scope)

        def printed(code: str = code, scope: dict = scope) -> None:
            exec(code, {**scope, "platform": _platform()})

        assert _objects(printed) == expected


def _platform() -> Platform:
    offers = PlatformOffers(pools=(gpu_pool("ecs.gn7e-c16g1.32xlarge"),), queues=("training", "research"))
    return replace(plain_platform(), offers=offers)


def _objects(program) -> list[dict]:
    return [resource.inputs for resource in record(program, preview=False).resources.values() if resource.kind]


@each_row(
    ("words", "said"),
    [
        ("-- bash train.sh", ("command = 'bash'", "the job runs torchrun itself", "--kind batch")),
        ("--kind mpi -- torchrun train.py", ("the job runs mpirun itself",)),
        ("--workers 0 -- python train.py", ("--workers = 0: must be 1 to 1000",)),
        ("--kind mpi --workers 0 -- mpirun -np 2 a", ("--workers = 0",)),
        ("--kind mpi --workers 2 --gpus 8 -- horovodrun -np 15 a", ("-np = 15", "16 ranks")),
        ("--kind mpi --workers 2 --gpus 8 -- mpirun -np 15 a", ("-np = 15", "16 ranks")),
        ("--workers 2 -- torchrun --nnodes 3 train.py", ("--workers = 2", "says 3 nodes")),
        ("--processes 2 -- torchrun --nproc-per-node 4 train.py", ("--processes = 2", "says 4")),
        ("--kind batch --elastic 1 -- a", ("--elastic = 1", "pytorch")),
        ("--kind batch --processes 2 -- a", ("--processes = 2",)),
        ("--workdir gone -- python train.py", ("--workdir = 'gone': is not a folder",)),
        ("--kind batch --prepare a -- sh -c b", ("--prepare = 'a'", "run it as part of the command")),
        ("--selector gpu -- a.py", ("--selector = 'gpu': must be LABEL=VALUE",)),
        ("--selector a=b! -- python train.py", ("--selector a = 'b!'",)),
        ("--toleration a:Never -- python train.py", ("--toleration = 'a:Never'", "NoSchedule, NoExecute, Prefer")),
        ("--shared-memory 2Gi -- python train.py", ("--shared-memory = '2Gi'", "more than the pod's memory, 1Gi")),
        ("--ps 2 -- python train.py", ("--ps = 2", "only to --kind tensorflow")),
        ("--kind tensorflow --ps-cpu 2 -- python train.py", ("--ps-cpu = '2'", "says nothing without --ps")),
        ("--kind tensorflow --ps 0 -- python train.py", ("--ps = 0", "1 to 1000")),
        ("--git-folder a -- python train.py", ("--git-folder = 'a'", "says nothing without --git")),
        ("--git https://git.example/a@ -- python train.py", ("--git = ", "has no reference")),
        ("--git https://git.example/a@b..c -- python train.py", ("--git = 'b..c'", "not a valid git reference")),
        ("--git git@git.example:a -- python train.py", ("--git = ", "needs a key")),
        ('--prepare "a \'b" -- python train.py', ('--prepare = "a \'b"', "is not closed")),
        ("--cache ../mine -- python train.py", ("--cache = '../mine'",)),
        ("--volume imagenet -- python train.py", ("--volume = 'imagenet'", "must be CLAIM:PATH")),
        ("--volume a:/b:rx -- python train.py", ("--volume = 'a:/b:rx'", "write imagenet:/imagenet")),
        ("--volume a:/data/output -- python train.py", ("--volume = '/data/output'", "already exists")),
        ("--volume A_B:/b -- python train.py", ("--volume = 'A_B'",)),
        ("--secret gcs:secrets -- python train.py", ("--secret = 'secrets'",)),
        ("--egress huggingface.co -- python train.py", ("--egress = 'huggingface.co'", "cannot use host names")),
        ("--deadline 2 -- python train.py", ("--deadline = '2'", "write it as 90m, 2h or 1d")),
        ("--deadline 0m -- python train.py", ("--deadline = '0m': must be 1s to 3650d",)),
        ("--egress internet:https -- python train.py", ("--egress = 'internet:https'", "write internet:443")),
        ("--egress 2001:db8::/32 -- python train.py", ("--egress = '2001:db8::/32'", "IPv6")),
        ("--kind batch -- env A.B=1 a", ("--env = 'A.B'", "rename the variable")),
        ("--kind batch 'A=1  '", ("command = 'A=…'", "starts nothing")),
        ("--kind batch -- ./train.py", ("command = './train.py'", "is not executable", "write: python train.py")),
        ("--image 'no image' -- python train.py", ("--image = 'no image'",)),
    ],
)
def test_what_could_not_run_is_refused(words, said):
    with pytest.raises(RefusalError) as caught:
        _described(words)
    assert all(word in str(caught.value) for word in said), str(caught.value)


@pytest.mark.parametrize(
    ("words", "stem"),
    [("python train.py", "train"), ("python src/My_Train.py", "my-train"), ("python -m a.b", "run"), ("x 2.py", "run")],
)
def test_a_run_without_a_name_gets_one_of_its_own(tmp_path, words, stem):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "My_Train.py").touch()
    first, second = (_described(f"--kind batch -- {words}").name for _ in range(2))
    assert first != second
    assert first.startswith(f"{stem}-")
    assert len(first) == len(stem) + 7


def _offers() -> PlatformOffers:
    return PlatformOffers(pools=(gpu_pool("ecs.gn7i-c32g1.8xlarge"), gpu_pool("ecs.gn7e-c16g1.32xlarge", name="big")))


def _lines(words: str, offers: PlatformOffers, line: Snapshot | None = None) -> list[str]:
    class Known(PlatformOutputs):
        platform_offers = offers

    known = Known(
        contract_version=1, namespace="a", queue="training", data_claim="d", output_claim="o", trainer_image="t"
    )
    return estimate(_described(words), known, line)


def test_what_it_takes_is_shown_with_the_price_of_its_gpus():
    lines = _lines("--workers 2 --gpus 1 --pool train --name a -- python train.py", _offers())
    assert lines[0] == "PyTorchJob a: 2 pods of 500m CPU, 8Gi memory, 1 GPU"
    assert lines[1] == "queue: training; pool: train"
    [pool, _] = _offers().pools
    price = _price(pool.instance_types[0])
    assert lines[2].startswith(f"GPUs: 2 in all, {2 * price / pool.gpus_per_node:,.2f} CNY/h")
    assert lines[3].startswith("code: 1 file, 10 KiB, sha256 ")


def test_a_folder_without_files_is_refused_with_the_option_that_sends_none(tmp_path):
    (tmp_path / "train.py").unlink()
    with pytest.raises(RefusalError, match=r"--workdir = .*: has no files .* or add --no-code if the program"):
        _described("-- python train.py")


def test_what_is_left_out_of_the_command_is_shown():
    words = "--kind mpi --workers 2 -- mpirun -np 2 -H a,b -mca plm_rsh_args '-p 1' python train.py"
    note = "left out of the command, because the job sets this itself: -H a,b; -mca plm_rsh_args '-p 1'"
    assert _lines(words, _offers())[-1] == note
    assert _described("-- python train.py").notes == []


@each_row(
    ("words", "unreadable", "expected"),
    [
        ("", (), "training, number 3 of 3 that wait"),
        ("--priority high", (), "training, number 2 of 3 that wait"),
        ("--queue research", (), "research, where no other job waits"),
        ("", ("podgroups of other namespaces",), "training, number 3 of 3 that wait, as far as you may see"),
    ],
)
def test_the_place_in_the_queue_is_shown(words, unreadable, expected):
    jobs = [job("first", spec={"priorityClassName": "a.high"}), job("second")]
    line = snapshot(
        pod_groups=[group(each) for each in jobs],
        priority_classes=[priority_class("a.high", 10)],
        unreadable=unreadable,
    )
    offers = PlatformOffers(priority_classes=("a.high",))
    assert _lines(f"{words} -- python train.py", offers, line)[1] == f"queue: {expected}; pool: any that fits"


def test_without_a_pool_the_price_is_that_of_any_and_unknown_without_prices():
    [_, _, line, _] = _lines("--gpus 1 -- python train.py", _offers())
    assert " to " in line
    unknown = PlatformOffers(pools=(replace(_offers().pools[0], instance_types=("ecs.new",)),))
    assert "price not known" in _lines("--gpus 1 -- python train.py", unknown)[2]
    assert len(_lines("-- python train.py", unknown)) == 3


def _price(name: str) -> float:
    price = instance_type(name).price_cny_per_hour
    assert price is not None
    return price


def test_a_variable_without_a_value_is_not_repeated(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--env", "hunter2", "--", "python", "train.py"])
    said = capsys.readouterr().err
    assert "must be NAME=VALUE" in said
    assert "hunter2" not in said
