"""The shell that runs a job's program, as pods have it: what it repeats, and which exit code it leaves to Volcano."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.job_pods import RESTART_EXIT_STATUS, STOPPED_EXIT_STATUS
from tests.unit.workloads.job_cases import actions, manifest_of, pod, task
from tests.waiting import PATIENCE_SECONDS, wait_until
from workloads.batch import BatchJobArgs
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs
from workloads.pytorch import PyTorchJobArgs
from workloads.restarts import run_alone, run_together
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs

if TYPE_CHECKING:
    from workloads.job_args import JobArgs

AGAIN = {"PodEvicted": "RestartJob", "exit 143": "RestartJob", "exit 75": "RestartJob"}
FAILS = {"PodFailed": "TerminateJob"}
ALONE = {"exit 143": "RestartPod after 1h0m0s"}
HOPELESS = {"exit 78": "TerminateJob"}
COUNTED_ALONE = {**ALONE, **HOPELESS, "PodFailed": "RestartPod"}
COUNTED = {"PodEvicted": "RestartJob", **HOPELESS, "PodFailed": "RestartJob"}
ONCE = {"PodEvicted": "TerminateJob", **FAILS}
ENDS = {"TaskCompleted": "CompleteJob"}


class Pods:
    """Starts of a job's pod, on a volume in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def words(self, text: str, program: str) -> list[str]:
        quick = text.replace("sleep 5", "sleep 0").replace("sleep 2", "sleep 0")
        return ["sh", "-c", quick.replace("/data/output", str(self.folder)), "start", "sh", "-c", program]

    def environment(self, restarts: int) -> dict[str, str]:
        return {**os.environ, "ATHANOR_JOB": "job-1", "ATHANOR_RESTARTS": str(restarts)}

    def run(self, text: str, program: str, restarts: int = 0) -> tuple[int, list[str]]:
        """Return the exit code of a pod and the lines of its log."""
        words = self.words(text, program)
        done = subprocess.run(
            words, env=self.environment(restarts), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path)


@pytest.mark.parametrize("text", [run_alone(0, 60), run_together(0, 60, pods=1), run_together(0, 60, pods=2)])
@pytest.mark.parametrize("code", [0, 3])
def test_a_program_that_ends_is_not_repeated_and_its_exit_code_is_the_pods(pods, text, code):
    assert pods.run(text, f"echo said; exit {code}") == (code, ["said"])


def test_a_program_in_a_pod_of_its_own_is_repeated_there_as_often_as_asked(pods):
    code, lines = pods.run(run_alone(2, 60), "echo said; exit 3")
    assert code == 3
    assert lines == [
        *["said"] * 3,
        "athanor: attempt 1 of 3 ended with exit code 3; starting again",
        "athanor: attempt 2 of 3 ended with exit code 3; starting again",
        "athanor: attempt 3 of 3 ended with exit code 3, the last one",
    ]
    once = f"[ -e {pods.folder}/there ] && exit 0; : > {pods.folder}/there; exit 3"
    assert pods.run(run_alone(2, 60), once)[0] == 0


def test_all_pods_start_again_as_often_as_asked_and_restarts_of_other_causes_count_for_nothing(pods):
    text = run_together(2, 60, pods=2)
    codes = [pods.run(text, "exit 3", restarts)[0] for restarts in (0, 4, 7)]
    assert codes == [RESTART_EXIT_STATUS, RESTART_EXIT_STATUS, 3]
    assert pods.run(text, "exit 3", 9)[1] == ["athanor: attempt 4 of 3 ended with exit code 3, the last one"]


def test_pods_that_fail_together_fail_once(pods):
    text = run_together(1, 60, pods=2)
    assert [pods.run(text, "exit 3", restarts)[0] for restarts in (0, 0, 1, 1)] == [75, 75, 3, 3]


def test_a_job_that_runs_again_under_its_name_may_fail_as_often_as_before(pods):
    text = run_together(1, 60, pods=1)
    assert [pods.run(text, "exit 3", restarts)[0] for restarts in (0, 1, 0, 1)] == [75, 3, 75, 3]


@pytest.mark.parametrize("text", [run_alone(3, 60), run_together(3, 60, pods=2)])
def test_a_program_that_says_that_it_would_fail_again_is_not_repeated(pods, text):
    assert pods.run(text, "echo said; exit 78")[0] == 78
    assert pods.run(text, "echo said; exit 78")[1].count("said") == 1


@pytest.mark.parametrize("number", [RESTART_EXIT_STATUS, STOPPED_EXIT_STATUS])
@pytest.mark.parametrize("text", [run_alone(0, 60), run_together(0, 60, pods=2)])
def test_a_programs_own_number_is_not_taken_for_the_pods(pods, text, number):
    code, lines = pods.run(text, f"exit {number}")
    assert code == 1
    assert lines == [f"athanor: the program ended with exit code {number} without being asked to end"]


SAVES = "trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
IGNORES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize("run", [run_alone, partial(run_together, pods=2)], ids=["alone", "together"])
@pytest.mark.parametrize(
    ("program", "grace", "said"),
    [(SAVES, 900, "saved"), ("echo ready; exec sleep 600", 900, ""), (IGNORES, 4, "")],
    ids=["saves", "ends", "ignores"],
)
def test_a_pod_that_is_asked_to_end_passes_that_on_and_is_not_taken_for_failed(pods, run, program, grace, said):
    text = run(3, grace)
    words = pods.words(text, program)
    process = subprocess.Popen(
        words, env=pods.environment(0), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            assert _stopped(process) == STOPPED_EXIT_STATUS
        finally:
            with suppress(ProcessLookupError):  # all of it has ended
                os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout.read().strip() == said


def test_a_program_that_has_just_begun_is_asked_to_end_too(pods, tmp_path):
    """The signal comes between the start of the program and the moment in which the shell knows its number."""
    ready = tmp_path / "ready"
    at_once = f'while [ ! -e {ready} ]; do :; done; kill -TERM "$$"; child=$!;'
    program = f"trap 'echo saved; exit 5' TERM; : > {ready}; while :; do sleep 0.05; done"
    for text in (run_alone(3, 900), run_together(3, 900, pods=2)):
        words = pods.words(text.replace("child=$!;", at_once, 1), program)
        process = subprocess.Popen(
            words, env=pods.environment(0), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        with process:
            assert process.stdout is not None
            try:
                assert process.wait(PATIENCE_SECONDS) == STOPPED_EXIT_STATUS
            finally:
                with suppress(ProcessLookupError):  # all of it has ended
                    os.killpg(process.pid, signal.SIGKILL)
            assert process.stdout.read() == "saved\n"
        ready.unlink()


def test_a_failure_waits_whether_the_pod_is_asked_to_end_as_one_whose_peer_was_taken_away_is(pods):
    text = run_together(0, 60, pods=2)
    words = [word.replace("sleep 0", "sleep 600") for word in pods.words(text, "exit 3")]
    process = subprocess.Popen(words, env=pods.environment(0), start_new_session=True)
    with process:
        try:
            wait_until(lambda: _commands_below(process.pid) == ["sleep"], "it to wait")
            assert _stopped(process) == STOPPED_EXIT_STATUS
        finally:
            with suppress(ProcessLookupError):  # all of it has ended
                os.killpg(process.pid, signal.SIGKILL)


def _stopped(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    """Ask a pod to end until it has: dash overlooks a signal that comes in the moment in which it begins to wait."""

    def ended() -> bool:
        process.terminate()
        return process.poll() is not None

    wait_until(ended, "the pod to end")
    return process.returncode


def _commands_below(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() for child in children]


def _pytorch(**more: object) -> JobArgs:
    return PyTorchJobArgs(**{"program": ("train.py",), "workers": 2, **more})  # pyright: ignore[reportArgumentType]


def _batch(**more: object) -> JobArgs:
    return BatchJobArgs(**{"command": ("./convert",), "pods": 2, **more})  # pyright: ignore[reportArgumentType]


def _mpi(**more: object) -> JobArgs:
    return MPIJobArgs(**{"program": ("./rank",), "workers": 2, **more})  # pyright: ignore[reportArgumentType]


def _tensorflow(**more: object) -> JobArgs:
    given = {"program": ("./train",), "workers": 2, "parameter_servers": ParameterServers(replicas=1), **more}
    return TensorFlowJobArgs(**given)  # pyright: ignore[reportArgumentType]


TRAINER = ("-m", "trainer.train")
GIT = GitSource(repository="https://git.example/team/code.git", branch="main")


@pytest.mark.parametrize(
    ("args", "role", "expected", "starts"),
    [
        (_pytorch(), "worker", {**AGAIN, **FAILS}, 101),
        (_pytorch(workers=1), "worker", AGAIN, 101),
        (_pytorch(max_restarts=3), "worker", {**AGAIN, **FAILS}, 104),
        (_pytorch(program=TRAINER), "worker", {**AGAIN, **FAILS}, 111),
        (_pytorch(deadline_seconds=60), "worker", ONCE, 1),
        (_pytorch(deadline_seconds=60, workers=1), "worker", {"PodEvicted": "TerminateJob"}, 1),
        (_pytorch(deadline_seconds=60, source=GIT), "source", FAILS, 1),
        (_pytorch(deadline_seconds=60, max_restarts=2), "worker", {**AGAIN, **FAILS}, 103),
        (_pytorch(working_directory="/app"), "worker", {**AGAIN, **FAILS}, 101),
        (_pytorch(working_directory="/app", max_restarts=2), "worker", COUNTED, 3),
        (_pytorch(minimum_workers=1), "worker", {**COUNTED_ALONE, **ENDS}, 11),
        (_pytorch(minimum_workers=1), "rendezvous", COUNTED, 11),
        (_pytorch(source=GIT), "source", {**ALONE, **FAILS}, 101),
        (_batch(), "pod", ALONE, 101),
        (_batch(deadline_seconds=60), "pod", {}, 1),
        (_batch(deadline_seconds=60, max_restarts=2), "pod", ALONE, 103),
        (_batch(command=("python3", "-m", "trainer.prepare_data")), "pod", ALONE, 111),
        (_mpi(deadline_seconds=60), "launcher", {**ONCE, **ENDS}, 1),
        (_mpi(), "worker", {**AGAIN, **FAILS}, 101),
        (_mpi(), "launcher", {**AGAIN, **FAILS, **ENDS}, 101),
        (_tensorflow(), "worker", {**ALONE, **FAILS}, 101),
        (_tensorflow(deadline_seconds=60), "worker", FAILS, 1),
        (_tensorflow(), "ps", {**AGAIN, **FAILS}, 101),
        (_tensorflow(), "chief", {**AGAIN, **FAILS, **ENDS}, 101),
    ],
)
def test_volcano_repeats_what_was_lost_and_ends_what_failed(args, role, expected, starts):
    manifest = manifest_of(args)
    assert actions(manifest, role) == expected
    assert manifest["spec"]["maxRetry"] == starts, "at as many starts the job ends"
    assert task(manifest, role)["template"]["spec"]["restartPolicy"] == "Never", "else Volcano never hears of a failure"


def test_pods_count_their_failures_by_how_often_all_were_started():
    def names(**more: object) -> list[str]:
        [container] = pod(manifest_of(_pytorch(**more)), "worker")["containers"]
        return [each["name"] for each in container["env"] if "valueFrom" in each]

    assert (names(), names(max_restarts=1)) == ([], ["ATHANOR_RESTARTS"])


def test_a_job_of_limited_time_waits_for_the_failures_of_other_pods_as_one_without_does():
    [container] = pod(manifest_of(_pytorch(deadline_seconds=60)), "worker")["containers"]
    assert any(run_together(0, 60, pods=2) in word for word in container["command"])
