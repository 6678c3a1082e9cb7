"""Public commands of arena, as its documentation has them, and what they become."""

from __future__ import annotations

import shlex

import pytest

from athanor.command_line import parsed
from athanor.run.description import describe
from tests.tables import each_row
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs
from workloads.placement import Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs

_SAMPLES = "https://code.example/team/tensorflow-sample-code.git"


def run_of(command: str, *words: str):
    return parsed(["run", "--from-arena", command, *words])


@each_row(
    ("command", "args"),
    [
        (
            f"""arena submit tf --name=tf-dist-git --gpus=1 --workers=2 --worker-image=tf:1 --sync-mode=git --ps=1
            --sync-source={_SAMPLES} --ps-image=tf:1 --ps-cpu=2 --tensorboard --logdir=/mnt
            --env=TEST_TMPDIR=code/tensorflow-sample-code/ --env CODE=code/own/
            "python code/tensorflow-sample-code/tfjob/main.py --data_dir=code/tensorflow-sample-code/data code/own"
            """,
            TensorFlowJobArgs(
                program=("python", "./tfjob/main.py", "--data_dir=./data", "code/own"), workers=2, image="tf:1",
                resources=Resources(gpus=1), source=GitSource(_SAMPLES, branch="master"),
                env={"TEST_TMPDIR": "./", "CODE": "code/own/"},
                parameter_servers=ParameterServers(replicas=1, resources=Resources(cpu="2")),
            ),
        ),
        (
            f"""arena submit pytorchjob --name=a --workers=1 --image=torch:1 --sync-mode=git --sync-source={_SAMPLES}
            -e GIT_SYNC_BRANCH=main -e GIT_SYNC_REV={"0a" * 20}
            "'python code/tensorflow-sample-code/mnist.py --max_steps 5000'"
            """,
            PyTorchJobArgs(
                program=("./mnist.py", "--max_steps", "5000"), workers=1, image="torch:1",
                source=GitSource(_SAMPLES, commit="0a" * 20),
            ),
        ),
        (
            """arena submit mpijob --name=mpi --gpus=1 --workers=2 --image=horovod:1 --env TEST=a=b -d tfdata:/tfdata
            --rdma --cpu 4 --memory=10Gi "mpirun python main.py"
            """,
            MPIJobArgs(
                program=("python", "main.py"), workers=2, image="horovod:1", env={"TEST": "a=b"},
                resources=Resources(gpus=1, cpu="4", memory="10Gi"),
                volumes=(ClaimMount(claim="tfdata", path="/tfdata"),),
            ),
        ),
        (
            f"""arena submit pytorchjob --name=torch --workers=2 --image=torch:1 --syncMode=git --syncSource={_SAMPLES}
            --env=GIT_SYNC_BRANCH=fix/#1 --working-dir=/src --toleration=a=b:NoSchedule,Equal
            --toleration=c=:NoExecute,Exists --selector gpu=a100 --share-memory 1Gi --running-timeout=2h
            "python /src/code/tensorflow-sample-code/mnist.py --x 1"
            """,
            PyTorchJobArgs(
                program=("./mnist.py", "--x", "1"), workers=2, image="torch:1",
                source=GitSource(_SAMPLES, branch="fix/#1"), node_labels={"gpu": "a100"},
                tolerations=(
                    Toleration(key="a", value="b", effect="NoSchedule"), Toleration(key="c", effect="NoExecute"),
                ),
                resources=Resources(shared_memory="1Gi"), deadline_seconds=7200, max_restarts=0,
            ),
        ),
    ],
)  # fmt: skip
def test_public_commands_are_the_same_jobs(command, args):
    described = describe(run_of(shlex.join(shlex.split(command))))
    assert described.args == args


def test_what_is_left_out_is_said_and_what_is_typed_wins(capsys):
    command = "arena submit tfjob --name=a --workers=1 --tensorboard --label=x=y --image=a:1 'python a.py'"
    arguments = run_of(command, "--workers", "3", "--", "python", "b.py")
    assert (arguments.kind, arguments.workers, arguments.image, arguments.no_code) == ("tensorflow", 3, "a:1", True)
    assert arguments.program == ["python", "b.py"]
    said = capsys.readouterr().err
    assert (
        "ignored in arena's command: --tensorboard (`athanor tensorboard RUN` shows a run's files); --label (" in said
    )


@each_row(
    ("command", "said"),
    [
        ("arena list", "is not a training job of arena"),
        ("arena submit etjob --name=a 'python a.py'", "is not a training job of arena"),
        ("arena submit tfjob --name=a", "starts nothing"),
        ("arena submit tfjob --image", "--from-arena = '--image': has no value"),
        ("arena submit tfjob --data-dir=/x 'python a.py'", "'--data-dir': cannot be translated. Fix: copy the folder"),
        ("arena submit tfjob --wrokers=1 'python a.py'", "'--wrokers': is not a flag that can be translated"),
        ("arena submit tfjob --toleration=all 'python a.py'", "'--toleration=all': cannot be translated"),
        ("arena submit tfjob --sync-source=https://a/b --sync-mode=rsync 'python a.py'", "is not code in git"),
        (
            "arena submit tfjob --sync-source=https://a/b -e GIT_SYNC_PASSWORD=hunter2 'python a.py'",
            "--git-secret NAME",
        ),
        (
            "arena submit tfjob --sync-source=https://a/b -e GIT_SYNC_REV=v1 'python a.py'",
            "'--env=GIT_SYNC_REV=v1': may be a tag, a branch or the beginning of a hash. Fix: write all 40 digits",
        ),
        ("arena submit tfjob 'python a.py", "is not closed"),
    ],
)
def test_what_cannot_be_translated_is_refused(capsys, command, said):
    with pytest.raises(SystemExit):
        run_of(command)
    error = capsys.readouterr().err
    assert said in error
    assert "hunter2" not in error


def test_words_of_a_program_in_addition_to_the_command_are_refused(capsys):
    with pytest.raises(SystemExit):
        run_of("arena submit pytorchjob --name=a 'python a.py'", "python", "other.py")
    assert "python other.py: --from-arena has a command already; to run these instead" in capsys.readouterr().err
