"""What the classes refuse reaches those who typed options in options, of every kind of job."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from athanor.command_line import main, parser
from athanor.run import command as module
from athanor.run.description import describe
from athanor.run.fit import check_fits
from athanor.run.options import OPTIONS, in_options
from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.outputs import PlatformOutputs
from infra.settings.gpu import Mig, TimeSlicing
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import node
from tests.unit.workloads.job_cases import PLATFORM, gpu_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.inspection.objects import Object

KINDS = ("pytorch", "mpi", "tensorflow", "batch")
PROGRAMS = {
    "pytorch": "python /app/train.py",
    "mpi": "mpirun -np 2 /app/train",
    "tensorflow": "python /app/train.py",
    "batch": "/app/convert",
}
POOLS = (
    gpu_pool("ecs.gn7e-c16g1.32xlarge"),
    gpu_pool("ecs.gn7e-c16g1.32xlarge", name="mig", sharing=Mig(profile="1g.10gb"), gpus_per_node=56),
    gpu_pool("ecs.gn7e-c16g1.32xlarge", name="sliced", sharing=TimeSlicing(replicas=4), shares_per_gpu=4),
    gpu_pool("ecs.gn7e-c16g1.32xlarge", name="own-eni", eni="exclusive", exclusive_pods=3),
    gpu_pool("ecs.gn7e-c16g1.32xlarge", name="cpus", gpus_per_node=0, gpu_memory_gib=0, compute_capability=None),
)
OFFERS = PlatformOffers(
    pools=POOLS, queues=("training", "research"), priority_classes=("athanor.high",), networks=("10.0.0.0/16",),
    pod_security="restricted",
)  # fmt: skip
NOT_TYPED = re.compile(
    r"""
    (?<![\w-])(?!TF_CONFIG|NVIDIA_VISIBLE_DEVICES|CUDA_VISIBLE_DEVICES)[A-Za-z]+_\w+   # a field or a constant
    | \b(?!GiB|MiB|TensorFlow|PyTorch|PodNetworking|PriorityClass|WebSocket)(?:[A-Z][a-z0-9]+){2,}\b   # a class
    | \b[A-Z]+Job\b | \w\(['"\w] | =\( | \(['"] | (?<![\w-])[a-z]+=['"\d]                     # calls, tuples, arguments
    """,
    re.VERBOSE,
)
"""Words of Python. Settings of the platform, which only its operator can change, are cut out before."""
SETTINGS = re.compile(r"athanor:[\w.]+|gpu\.driver_version")


def python_in(refusal: RefusalError) -> list[str]:
    return NOT_TYPED.findall(SETTINGS.sub("", f"{refusal.field}: {refusal.limit}. Fix: {refusal.fix}"))


def refused(kind: str, words: str, program: str | None = None) -> RefusalError:
    refusal = refusal_of(kind, words, PROGRAMS[kind] if program is None else program)
    assert refusal
    return refusal


def refusal_of(kind: str, words: str, program: str) -> RefusalError | None:
    try:
        asked(kind, words, program)
    except RefusalError as refusal:
        return refusal
    return None


def asked(
    kind: str, words: str, program: str, offers: PlatformOffers = OFFERS, nodes: Sequence[Object] = ()
) -> str | None:
    typed = ["run", "--kind", kind, "--no-code", *shlex.split(words), "--", *shlex.split(program)]
    arguments = parser().parse_args(typed)
    own = {"offers": json.dumps(offers.to_dict()), "trainer_image": "mirror/athanor/trainer:1", "tensorflow_image": ""}
    platform = PlatformOutputs(contract_version=1, **{**vars(PLATFORM), **own})
    return check_fits(arguments, describe(arguments), platform, nodes)


NODES = [
    node("large", cpu="16", memory="32Gi"),
    node("small", cpu="4", memory="64Gi"),
    node("reserved", cpu="96", memory="512Gi", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]),
]


@each_row(
    ("words", "said"),
    [
        ("--cpu 64", ("--cpu = '64'", "the largest node has 16 for pods")),
        ("--memory 100Gi", ("--memory = '100 GiB'", "the largest node has 64 GiB for pods")),
        ("--gpus 1", ("--gpus = '1'", "the largest node has 0 for pods", "omit it, because no node has any")),
        ("--cpu 10 --memory 50Gi", ("--cpu = '10'", "no node has this together with everything else")),
    ],
)
def test_what_no_node_of_the_cluster_can_run_is_refused(words, said):
    unknown = PlatformOffers()
    with pytest.raises(RefusalError) as caught:
        asked("batch", f"--image own:1 {words}", PROGRAMS["batch"], unknown, NODES)
    for each in said:
        assert each in str(caught.value)
    asked("batch", f"--image own:1 {words}", PROGRAMS["batch"], unknown)  # nothing is known of the nodes


@each_row(
    ("words", "offers", "said"),
    [
        (
            "pool=b10",
            PlatformOffers(),
            ("--selector athanor.dev/pool = 'b10'", "no node has this label", "did you mean a10?"),
        ),
        ("gpu=a100", PlatformOffers(), ("--selector gpu = 'a100'", "`kubectl get nodes --show-labels`")),
        (
            "pool=a10 --selector kubernetes.io/hostname=gone",
            PlatformOffers(),
            ("--selector kubernetes.io/hostname = 'gone'", "use one of large, reserved, small"),
        ),
        ("type=ecs.g7", OFFERS, ("--selector node.kubernetes.io/instance-type = 'ecs.g7'", "ecs.gn7e-c16g1.32xlarge")),
        ("pool=traim", OFFERS, ("--selector athanor.dev/pool = 'traim'", "did you mean train?")),
        ("pool=mig --pool train", OFFERS, ("--selector athanor.dev/pool = 'mig'", "use one of train")),
    ],
)
def test_labels_that_no_node_can_have_are_refused(words, offers, said):
    long = words.replace("pool=", "athanor.dev/pool=", 1).replace("type=", "node.kubernetes.io/instance-type=")
    with pytest.raises(RefusalError) as caught:
        asked("batch", f"--image own:1 --selector {long}", PROGRAMS["batch"], offers, NODES)
    for each in said:
        assert each in str(caught.value)
    assert asked("batch", f"--image own:1 --selector {long}", PROGRAMS["batch"], offers) is None  # nothing is known


@each_row(
    ("selector", "offers", "said"),
    [
        ("gpu=a100", OFFERS, "no node has gpu=a100 now: the pods wait for one"),
        ("athanor.dev/pool=train", OFFERS, "no node has athanor.dev/pool=train now: the pods wait for one"),
        (
            "topology.kubernetes.io/zone=a",
            OFFERS,
            "no node has topology.kubernetes.io/zone=a now: the pods wait for one",
        ),
        ("kubernetes.io/hostname=small", OFFERS, None),
        ("kubernetes.io/hostname=reserved", PlatformOffers(), None),
    ],
)
def test_labels_that_a_node_may_have_are_not(selector, offers, said):
    assert asked("batch", f"--image own:1 --selector {selector}", PROGRAMS["batch"], offers, NODES) == said


def test_what_one_node_can_run_is_not_refused_though_it_is_away():
    away = node("away", cpu="96", memory="512Gi", ready=False)
    asked("batch", "--image own:1 --cpu 64", PROGRAMS["batch"], PlatformOffers(), [*NODES, away])


REFUSED = {
    "--name My-Run": ("--name = 'My-Run'", "a short lowercase name"),
    "--workers 0": ("--workers = 0", "must be 1 to 1000"),
    "--workers -3": ("--workers = -3", "must be 1 to 1000"),
    "--workers 90 --gpus 8 --pool train": ("--workers = ", "has at most 4 nodes"),
    "--gpus 99": ("--gpus = 99", "must be 0 to 16"),
    "--gpus 3 --pool train": ("--gpus = 3", "use one of 1, 2, 4, 8"),
    "--gpus 1 --pool mig": ("--gpus = 1", "choose a pool of whole GPUs with --pool"),
    "--gpus 1 --pool sliced": ("--gpus = 1", "pool 'sliced' share", "choose a pool of whole GPUs with --pool"),
    "--gpus 1 --pool cpus": ("--gpus = 1", "name a pool with GPUs"),
    "--pool own-eni": ("--pool = 'own-eni'", "choose another pool"),
    "--pool trian": ("--pool = 'trian'", "did you mean train?"),
    "--cpu 4000": ("--cpu = '4000'", "the largest node of"),
    "--cpu lots": ("--cpu = 'lots'", "write cores or millicores"),
    "--memory 4000Gi": ("--memory = '4000Gi'", "the largest node of"),
    "--memory 16": ("--memory = '16'", "with its unit"),
    "--queue reserach": ("--queue = 'reserach'", "did you mean research?"),
    "--priority hihg": ("--priority = 'hihg'", "no PriorityClass of that name"),
    "--image 'no image'": ("--image = 'no image'",),
    "--cache ../mine": ("--cache = '../mine'",),
    "--run-as-user 0": ("--run-as-user = 0",),
    "--run-as-user -1": ("--run-as-user = -1", "must be 0 to"),
    "--env 1A=b": ("--env = '1A'", "rename the variable"),
    "--env VC_X=b": ("--env = 'VC_X'", "choose another name"),
    "--env NVIDIA_VISIBLE_DEVICES=0": ("--env = 'NVIDIA_VISIBLE_DEVICES'", "omit it, and request GPUs"),
    "--secret WandB": ("--secret = 'WandB'",),
    "--secret wandb:keys": ("--secret = 'keys'",),
    "--egress huggingface.co": ("--egress = 'huggingface.co'", "cannot use host names"),
    "--egress internet:0": ("--egress = 0", "must be 1 to 65535"),
    "--egress 10.0.0.0/8": ("--egress = '10.0.0.0/8'", "name the hosts"),
    "--volume claim:/tmp": ("--volume = '/tmp'", "already exists"),
    "--volume A_B:/b": ("--volume = 'A_B'",),
    "--volume a:/b --volume c:/b": ("--volume = '/b'", "two volumes"),
    "--secret a:/b --secret c:/b": ("--secret = '/b'", "two volumes"),
    "--deadline 0s": ("--deadline = '0s'", "must be 1s to 3650d", "write it as 90m, 2h or 1d"),
    "--max-restarts -1": ("--max-restarts = -1", "must be 0 to 1000"),
    "--deadline 9999d": ("--deadline = '9999d'", "must be 1s to 3650d"),
}
"""By what is typed, for jobs of every kind: what the refusal has."""


@each_row(("words", "kind"), product(REFUSED, KINDS))
def test_every_kind_is_refused_by_the_option_that_was_typed(kind, words):
    image = "" if "--image" in words else "--image own:1"
    refusal = refused(kind, f"{words} {image}", PROGRAMS[kind].replace("-np 2 ", ""))
    for said in REFUSED[words]:
        assert said in str(refusal)
    assert python_in(refusal) == []


@each_row("pool", ["mig", "sliced", "cpus"])
def test_a_job_without_gpus_may_run_in_a_pool_of_any_kind(pool):
    assert refusal_of("batch", f"--image own:1 --pool {pool}", PROGRAMS["batch"]) is None


@each_row(
    ("kind", "words", "program", "said"),
    [
        ("pytorch", "--elastic 0", None, ("--elastic = 0", "must be 1 to 1")),
        ("pytorch", "--processes 0", None, ("--processes = 0", "must be 1 to 16")),
        ("pytorch", "--gpus 4 --processes 3", None, ("--processes = 3", "use a divisor of 4")),
        ("pytorch", "", "torchrun bash run.sh", ("command = 'bash'", "write python train.py or python -m MODULE")),
        ("pytorch", "", "torchrun python /app/a.py --lr 1", ("command = 'python'", "write python /app/a.py or")),
        ("pytorch", "--prepare ''", "''", ("command = ",)),
        ("mpi", "--processes 0", "/app/train", ("--processes = 0", "must be 1 to 256")),
        ("mpi", "--workers 0", None, ("--workers = 0", "must be 1 to 1000")),
        ("mpi", "", "-m train", ("command = '-m'", "start with the program: python3 -m …")),
        ("mpi", "--run-as-user 0", None, ("--run-as-user = 0", "is root")),
        ("tensorflow", "", "horovodrun -np 2 python a.py", ("command = 'horovodrun'", "--kind mpi for mpirun and")),
        ("tensorflow", "", "torchrun a.py", ("command = 'torchrun'", "--kind pytorch for torchrun")),
        ("tensorflow", "--env TF_CONFIG={}", None, ("--env = 'TF_CONFIG'", "Fix: omit it")),
        ("tensorflow", "", None, ("--image = ''", "name an image, or")),
        ("pytorch", "--prepare 'ffmpeg -i a'", None, ("--prepare = 'ffmpeg'", "is not in the platform's image")),
        ("batch", "--prepare 'pip install .'", None, ("--prepare = 'pip install .'", "as part of the command")),
    ],
)  # fmt: skip
def test_what_only_one_kind_refuses(kind, words, program, said):
    refusal = refused(kind, words, program)
    for each in said:
        assert each in str(refusal)
    assert python_in(refusal) == []


ANY_OPTIONS = st.lists(
    st.one_of(
        *(
            st.tuples(st.just(option), st.sampled_from(values))
            for option, values in {
                "--workers": ("-1", "0", "1", "3", "999", "5000"),
                "--gpus": ("-2", "0", "1", "3", "8", "16", "17"),
                "--processes": ("-1", "0", "1", "3", "16", "300"),
                "--elastic": ("-1", "0", "1", "4"),
                "--cpu": ("0", "1", "-1", "500m", "3000", "two"),
                "--memory": ("0", "1", "4Gi", "9000Gi", "4GB", "lots"),
                "--pool": ("train", "mig", "sliced", "own-eni", "cpus", "none", "A B"),
                "--queue": ("training", "none", "A B", ""),
                "--priority": ("high", "none", "A B"),
                "--image": ("own:1", "A B", "", "own:1@sha256:0"),
                "--cache": ("a", "A/B", ".."),
                "--run-as-user": ("-1", "0", "1000", "9999999999"),
                "--env": ("A=b", "1=b", "A-B=c", "TF_CONFIG=x", "VK_A=b", "NVIDIA_VISIBLE_DEVICES=0", "A=\0"),
                "--secret": ("a", "A", "a:/b", "a:b", "a:/tmp", ":"),
                "--egress": ("oss", "internet:1,99999", "10.0.0.0/4", "10.0.0.1/8", "127.0.0.1", "::1", "10.0.0.0/16"),
                "--volume": ("a:/b", "a:/dev/shm", "A:/b", "a:b", "a:/b/../c", "a:/data/data"),
                "--deadline": ("0s", "1h", "99999d", "x"),
                "--max-restarts": ("-1", "0", "3", "9999"),
                "--prepare": ("pip install .", "a && b", "'"),
                "--name": ("a", "A", "9a", "a-" * 30, "a_b"),
            }.items()
        ),
    ),
    max_size=5,
)  # fmt: skip
ANY_PROGRAM = st.lists(
    st.sampled_from(
        ["python", "train.py", "-m", "torchrun", "mpirun", "horovodrun", "deepspeed", "bash", "run.sh", "-np", "2",
         "-x", "--nnodes=2", "--nproc-per-node", "-mca", "accelerate", "launch", "", "--lr"]
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@given(kind=st.sampled_from(KINDS), options=ANY_OPTIONS, program=ANY_PROGRAM)
@example(kind="tensorflow", options=[], program=["horovodrun", "train.py"])
def test_no_refusal_has_words_that_nobody_typed(kind, options, program):
    words = shlex.join([f"{name}={value}" for name, value in options])
    if refusal := refusal_of(kind, words, shlex.join(program)):
        assert python_in(refusal) == [], str(refusal)
        assert refusal.field.startswith(("--", "command", "-np", "job")), str(refusal)


def test_every_field_stands_for_an_option_that_there_is():
    run = next(action.choices["run"] for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    option_words = {word for action in run._actions for word in action.option_strings}
    assert {option for option in OPTIONS.values() if option.startswith("--")} <= option_words


def test_what_has_no_option_stays_as_it_is():
    refusal = RefusalError("athanor:network", 1, "is not", "do")
    assert in_options(refusal) is refusal


def test_a_refusal_of_the_platform_comes_before_the_engine_and_has_its_parts(monkeypatch, tmp_path, capsys):
    platform = PlatformOutputs(contract_version=1, **{**vars(PLATFORM), "offers": json.dumps(OFFERS.to_dict())})
    cluster = argparse.Namespace(platform=lambda: platform)
    monkeypatch.setattr(module.Cluster, "of", lambda _: cluster)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")  # no engine
    assert main(["run", "--json", "--no-code", "--queue", "reserach", "--", "python", "/app/train.py"]) == 1
    said = json.loads(capsys.readouterr().err)
    assert {name: said[name] for name in ("command", "field", "limit", "fix")} == {
        "command": "run",
        "field": "--queue",
        "limit": "the platform has no queue of that name",
        "fix": "did you mean research?",
    }
