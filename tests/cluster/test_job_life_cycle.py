"""What becomes of jobs: lost and late workers, the end, waiting on request, changes, repetitions, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.test_training_jobs import KILL_TRAINING, after_last, events
from tests.fixtures.foreign_image import load_foreign_image
from tests.fixtures.team import ENDED, Team, phase
from tests.waiting import KUBECTL_TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone

TRAINING = """
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

PyTorchJob({name!r}, platform, PyTorchJobArgs(
    program=(
        "-m", "trainer.train", "--data_dir=/data/data", "--output_dir=/data/output", "--run_name=$(ATHANOR_JOB)",
        "--model_name={name}", "--epochs=400", "--width=64", "--checkpoint_interval_steps=20",
        "--log_interval_steps=1",
    ),
    prepare=("python3", "-m", "trainer.prepare_data", "--data_dir=/data/data"),
    workers=2, {more} resources=Resources(cpu="250m", memory="2Gi"), grace_period_seconds=30,
))
"""
BATCH = """
from workloads.batch import BatchJob, BatchJobArgs
from workloads.resources import Resources

BatchJob({name!r}, platform, BatchJobArgs(
    command=("sh", "-c", {command!r}), resources=Resources(cpu="{cpu}", memory="64Mi"), {more}
))
"""


FOREIGN = """
from workloads.batch import BatchJob, BatchJobArgs
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs

foreign = dict(image={image!r}, resources=Resources(cpu="50m", memory="1Gi"), max_restarts=0)
PyTorchJob("foreign-pytorch", platform, PyTorchJobArgs(program=("train.py",), workers=1, **foreign))
MPIJob("foreign-mpi", platform, MPIJobArgs(program=("rank",), workers=2, **foreign))
TensorFlowJob(
    "foreign-tensorflow", platform, TensorFlowJobArgs(program=("python3", "check.py"), workers=1, **foreign)
)
BatchJob("foreign-batch", platform, BatchJobArgs(command=("python3", "check.py"), **foreign))
"""
FAILING = """
from workloads.batch import BatchJob, BatchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs

# Volcano takes note of a pod that runs before it may fail (docs/jobs.md, "What counts as a restart").
command = ("sh", "-c", "echo start >> /data/output/starts-$ATHANOR_JOB; sleep 3; exit 3")
small = Resources(cpu="50m", memory="64Mi")
for restarts in {restarts!r}:
    more = dict(resources=small, max_restarts=restarts, grace_period_seconds=10)
    BatchJob(f"alone-{{restarts}}", platform, BatchJobArgs(command=command, **more))
    together = TensorFlowJobArgs(program=command, workers=1, image=platform.trainer_image, **more)
    TensorFlowJob(f"together-{{restarts}}", platform, together)
one = ("sh", "-c", '[ "$VC_TASK_INDEX" = 0 ] && exec sleep 600; exit 3')
pair = TensorFlowJobArgs(program=one, workers=2, image=platform.trainer_image, resources=small, grace_period_seconds=10)
TensorFlowJob("pair", platform, pair)
"""
RESTARTS = (0, 1, 3)


def batch(name: str, command: str = "true", *, cpu: str = "50m", **more: object) -> str:
    return BATCH.format(name=name, command=command, cpu=cpu, more=", ".join(f"{k}={v!r}" for k, v in more.items()))


def pods(clone: Clone, name: str) -> dict[str, dict[str, Any]]:
    objects = clone.objects("pods", f"athanor.dev/job={name}")
    return {pod["metadata"]["name"]: pod for pod in objects}


def names(clone: Clone, job: str) -> list[str]:
    return [event["event"] for event in events(clone, job)]


def worlds(clone: Clone, job: str) -> list[int]:
    """Return with how many ranks each life of rank 0 trained."""
    return [event["world_size"] for event in events(clone, job) if "world_size" in event]


@pytest.fixture
def no_new_pods(served: Clone) -> Iterator[None]:
    """Let pods that run go on, and no new one find a node."""
    [node] = [node["metadata"]["name"] for node in served.objects("nodes")]
    served.kubectl("cordon", node)
    try:
        yield
    finally:
        served.kubectl("uncordon", node)


@pytest.fixture(scope="class")
def job(team: Team) -> str:
    team.declare(TRAINING.format(name="elastic", more="minimum_workers=1,"))
    team.up()
    name = team.jobs()["elastic"]["metadata"]["name"]
    wait_until(lambda: "checkpoint_saved" in names(team.clone, name), "first checkpoint")
    return name


class TestElastic:
    """A job that shrinks when a worker is killed, grows again when it comes back, and saves when it is destroyed."""

    @pytest.mark.usefixtures("no_new_pods")
    def test_it_goes_on_alone_while_there_is_no_place_for_the_lost_worker(self, served: Clone, job: str) -> None:
        assert worlds(served, job)[-1] == 2
        served.kubectl("delete", "pod", f"{job}-worker-1", "-n", "athanor", "--grace-period=0", "--force")
        wait_until(lambda: worlds(served, job)[-1] == 1, "the other worker to go on alone")
        wait_until(lambda: "checkpoint_saved" in after_last(names(served, job), "resumed"), "progress")
        lost = wait_until(lambda: pods(served, "elastic").get(f"{job}-worker-1"), "the lost pod to be recreated")
        assert lost["status"]["phase"] == "Pending"
        assert "cordon" in served.make("why", "JOB=elastic") or "unschedulable" in served.make("why", "JOB=elastic")

    def test_it_takes_up_the_worker_that_comes_back(self, served: Clone, job: str) -> None:
        wait_until(lambda: worlds(served, job)[-1] == 2, "both workers to train again")
        steps = [event["step"] for event in events(served, job) if event["event"] == "resumed"]
        assert steps == sorted(steps)
        assert steps[0] > 0

    def test_a_killed_rank_costs_no_pod(self, served: Clone, job: str) -> None:
        before = {name: pod["metadata"]["uid"] for name, pod in pods(served, "elastic").items()}
        lives = len(worlds(served, job))
        served.kubectl("exec", f"{job}-worker-0", "-n", "athanor", "--", "python3", "-c", KILL_TRAINING)
        wait_until(lambda: len(worlds(served, job)) > lives, "the rank to start again")
        assert {name: pod["metadata"]["uid"] for name, pod in pods(served, "elastic").items()} == before

    def test_an_evicted_worker_costs_no_restart(self, served: Clone, team: Team, job: str) -> None:
        """A drained node or a preemption: the pod is asked to stop, comes into the phase Failed and is gone."""
        name = f"{job}-worker-1"
        before = pods(served, "elastic")[name]["metadata"]["uid"]
        restarts = team.jobs()["elastic"]["status"].get("retryCount", 0)
        served.kubectl("delete", "pod", name, "-n", "athanor", "--wait=true")
        made_again = lambda pod: pod is not None and pod["metadata"]["uid"] != before  # noqa: E731
        wait_until(lambda: made_again(pods(served, "elastic").get(name)), "the pod to be recreated")
        wait_until(lambda: worlds(served, job)[-1] == 2, "both workers to train again")
        assert team.jobs()["elastic"]["status"].get("retryCount", 0) == restarts

    def test_destroy_stops_it_after_a_checkpoint(self, served: Clone, team: Team, job: str) -> None:
        wait_until(lambda: worlds(served, job)[-1] == 2, "both workers to train")
        wait_until(lambda: "step" in after_last(names(served, job), "resumed"), "a step")
        team.declare("")
        team.up()
        wait_until(lambda: not pods(served, "elastic"), "the pods to be gone")
        stopped = [event for event in events(served, job) if event["event"] == "stopped"][-1]
        checkpoints = served.home / "local" / "volumes" / "output" / job / "checkpoints"
        assert (checkpoints / f"step-{stopped['step']:08d}" / "complete.json").exists()


@pytest.fixture(scope="class")
def declared(team: Team) -> None:
    """One update with a job that it waits for, two that can never start, and jobs that end by themselves."""
    jobs = (
        batch("kept", "sleep 2", wait_seconds=900),
        batch("huge", cpu="500"),
        batch("imageless", image="registry.invalid/none:1"),
        FOREIGN.format(image=load_foreign_image(team.clone.cluster, team.clone.outputs()["trainer_image"])),
        FAILING.format(restarts=RESTARTS),
    )
    team.declare("".join(jobs))
    team.up()


@pytest.mark.usefixtures("declared")
class TestDeclared:
    """What an update has made, and what becomes of it when it is asked for or changed."""

    def test_update_waits_for_a_job_on_request(self, team: Team) -> None:
        assert phase(team.jobs()["kept"]) == "Completed"

    @pytest.mark.parametrize(
        ("name", "cause", "value"), [("huge", "cpu", "500"), ("imageless", "image", "registry.invalid/none:1")]
    )
    def test_why_says_what_is_missing(self, team: Team, name: str, cause: str, value: str) -> None:
        said = wait_until(
            lambda: said if value in (said := team.clone.make("why", f"JOB={name}")) else "",
            lambda: f"the reason; {pods(team.clone, name)}",
        )
        assert cause in said

    @pytest.mark.parametrize("kind", ["pytorch", "mpi", "tensorflow", "batch"])
    def test_an_image_made_for_root_finds_a_user_a_home_and_its_environment(self, team: Team, kind: str) -> None:
        name = f"foreign-{kind}"
        ended = wait_until(lambda: phase(team.jobs()[name]) in ENDED and team.jobs()[name], f"{name} to end")
        assert phase(ended) == "Completed", team.clone.make("logs", f"JOB={name}", check=False)

    @pytest.mark.parametrize("kind", ["alone", "together"])
    @pytest.mark.parametrize("restarts", RESTARTS)
    def test_a_job_that_fails_starts_again_as_often_as_it_may(self, team: Team, kind: str, restarts: int) -> None:
        name = f"{kind}-{restarts}"
        ended = wait_until(
            lambda: phase(team.jobs()[name]) in ENDED and team.jobs()[name],
            f"{name} to end",
            moves=lambda: team.jobs()[name].get("status"),
        )
        starts = team.clone.home / "local" / "volumes" / "output" / f"starts-{ended['metadata']['name']}"
        counted = ended["status"].get("retryCount", 0)
        if kind == "together" and counted < restarts:
            pytest.skip(f"Volcano ended {name} with {counted} of {restarts} restarts used: volcano#3967")
        assert len(starts.read_text(encoding="utf-8").splitlines()) == restarts + 1, ended["status"]
        # A pod that starts again alone is repeated in its place, of which Volcano notices nothing.
        assert counted == (0 if kind == "alone" else restarts)
        [pod] = pods(team.clone, name).values()
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3, "it stays to be asked"

    def test_why_counts_restarts(self, team: Team) -> None:
        assert "after 1 restart: container" in team.clone.make("why", "JOB=together-1")

    def test_a_pod_that_fails_ends_the_others_and_stays_to_be_asked(self, team: Team) -> None:
        wait_until(lambda: phase(team.jobs()["pair"]) == "Terminated", "the pair to end")
        [kept] = [pod for name, pod in pods(team.clone, "pair").items() if name.endswith("-worker-1")]
        assert kept["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert "container worker of worker-1 failed (exit code 3)" in team.clone.make("why", "JOB=pair")

    def test_a_label_changes_the_job_in_place_and_its_command_does_not(self, team: Team) -> None:
        before = team.jobs()["kept"]["metadata"]
        team.declare(batch("kept", "sleep 2", wait_seconds=900, labels={"team": "vision"}))
        said = team.clone.pulumi("up", "--yes", "--diff", *team.words)
        assert "vision" in said
        assert "replace" not in said
        labelled = team.jobs()["kept"]["metadata"]
        assert (labelled["uid"], labelled["labels"]["team"]) == (before["uid"], "vision")
        team.declare(batch("kept", "exit 0", wait_seconds=900))
        assert "replace" in team.clone.pulumi("preview", "--diff", *team.words)


def test_update_fails_when_the_awaited_job_does_not_end_in_time(team: Team) -> None:
    team.declare(batch("stuck", "sleep 600", wait_seconds=3, grace_period_seconds=10))
    said = team.clone.up(*team.words, check=False)
    assert "error" in said
    assert phase(team.jobs()["stuck"]) in {"Pending", "Running"}


def test_update_fails_as_soon_as_the_awaited_job_has(team: Team) -> None:
    team.declare(batch("fails", "exit 3", wait_seconds=900))
    assert "container pod of pod-0 failed (exit code 3)" in team.clone.up(*team.words, check=False)


def test_a_job_runs_once_more_on_request(served: Clone) -> None:
    [before] = served.objects("jobs", "athanor.dev/job=digits-training")
    served.make("rerun", "JOB=digits-training")
    [after] = served.objects("jobs", "athanor.dev/job=digits-training")
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    wait_until(
        lambda: phase(served.object("jobs", after["metadata"]["name"])) == "Completed",
        "it to complete again",
        moves=lambda: len(events(served, after["metadata"]["name"])),
    )


@pytest.fixture(scope="class")
def cleaned(served: Clone, team: Team) -> dict[str, Any]:
    """Jobs as they were before a clean-up; it stays switched on, which no other test minds."""
    served.configure_local(**{"clean_up.enabled": "true"})
    served.up()
    team.declare(
        batch("gone", pods=2, ttl_seconds_after_finished=0, wait_seconds=900) + batch("stays", wait_seconds=900)
    )
    team.up()
    before = team.jobs()
    cron = ("-n", "job-cleanup-system")
    served.kubectl("create", "job", "--from=cronjob/job-cleanup", "once", *cron)
    served.kubectl("wait", "--for=condition=Complete", "job/once", *cron, KUBECTL_TIMEOUT)
    return before


class TestCleanUp:
    """Finished pods go after their time; the job stays what it was, whatever is refreshed or restarted."""

    def test_its_pods_are_gone_and_others_are_not(self, served: Clone, cleaned: dict[str, Any]) -> None:
        assert phase(cleaned["gone"]) == "Completed"
        assert pods(served, "gone") == {}
        assert len(pods(served, "stays")) == 1

    def test_the_job_does_not_come_back(self, team: Team, cleaned: dict[str, Any]) -> None:
        served = team.clone
        controllers = ("deployment/volcano-controllers", "-n", "volcano-system")
        served.kubectl("rollout", "restart", *controllers)
        served.kubectl("rollout", "status", *controllers, KUBECTL_TIMEOUT)
        served.pulumi("refresh", "--yes", "--expect-no-changes", *team.words)
        served.pulumi("up", "--yes", "--expect-no-changes", *team.words)
        job = team.jobs()["gone"]
        assert job["metadata"]["uid"] == cleaned["gone"]["metadata"]["uid"]
        assert phase(job) == "Completed"
        assert pods(served, "gone") == {}
