"""What becomes of jobs: lost and late workers, waiting on request, changes, repetitions, clean-up, the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.test_training_jobs import KILL_TRAINING, after_last, events
from tests.fixtures.clone import Clone, wait_until
from tests.fixtures.team import Team, phase

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def batch(name: str, command: str = "true", *, cpu: str = "50m", **more: object) -> str:
    return BATCH.format(name=name, command=command, cpu=cpu, more=", ".join(f"{k}={v!r}" for k, v in more.items()))


def pods(clone: Clone, name: str) -> dict[str, dict[str, Any]]:
    found = clone.objects("pods", "-n", "athanor", "-l", f"athanor.dev/job={name}")
    return {pod["metadata"]["name"]: pod for pod in found}


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
    wait_until(lambda: "checkpoint_saved" in names(team.clone, name), "first checkpoint", 180)
    return name


class TestElastic:
    """A job that shrinks when a worker is killed, grows again when it comes back, and saves when it is destroyed."""

    @pytest.mark.usefixtures("no_new_pods")
    def test_it_goes_on_alone_while_there_is_no_place_for_the_lost_worker(self, served: Clone, job: str) -> None:
        assert worlds(served, job)[-1] == 2
        served.kubectl("delete", "pod", f"{job}-worker-1", "-n", "athanor", "--grace-period=0", "--force")
        wait_until(lambda: worlds(served, job)[-1] == 1, "the other worker to go on alone", 180)
        wait_until(lambda: "checkpoint_saved" in after_last(names(served, job), "resumed"), "progress", 120)
        lost = wait_until(lambda: pods(served, "elastic").get(f"{job}-worker-1"), "the lost pod to be made again")
        assert lost["status"]["phase"] == "Pending"
        assert "cordon" in served.make("why", "JOB=elastic") or "unschedulable" in served.make("why", "JOB=elastic")

    def test_it_takes_up_the_worker_that_comes_back(self, served: Clone, job: str) -> None:
        wait_until(lambda: worlds(served, job)[-1] == 2, "both workers to train again", 180)
        steps = [event["step"] for event in events(served, job) if event["event"] == "resumed"]
        assert steps == sorted(steps)
        assert steps[0] > 0

    def test_a_killed_rank_costs_no_pod(self, served: Clone, job: str) -> None:
        before = {name: pod["metadata"]["uid"] for name, pod in pods(served, "elastic").items()}
        lives = len(worlds(served, job))
        served.kubectl("exec", f"{job}-worker-0", "-n", "athanor", "--", "python3", "-c", KILL_TRAINING)
        wait_until(lambda: len(worlds(served, job)) > lives, "the rank to start again", 180)
        assert {name: pod["metadata"]["uid"] for name, pod in pods(served, "elastic").items()} == before

    def test_destroy_stops_it_after_a_checkpoint(self, served: Clone, team: Team, job: str) -> None:
        wait_until(lambda: worlds(served, job)[-1] == 2, "both workers to train", 180)
        wait_until(lambda: "step" in after_last(names(served, job), "resumed"), "a step", 120)
        team.declare("")
        team.up()
        wait_until(lambda: not pods(served, "elastic"), "the pods to be gone", 60)
        stopped = [event for event in events(served, job) if event["event"] == "stopped"][-1]
        checkpoints = served.home / "local" / "volumes" / "output" / job / "checkpoints"
        assert (checkpoints / f"step-{stopped['step']:08d}" / "complete.json").exists()


def test_update_waits_for_a_job_on_request(team: Team) -> None:
    team.declare(batch("smoke", "sleep 2", wait_seconds=120))
    team.up()
    assert phase(team.jobs()["smoke"]) == "Completed"


def test_update_fails_when_the_awaited_job_does_not_end_in_time(team: Team) -> None:
    team.declare(batch("stuck", "sleep 600", wait_seconds=3, grace_period_seconds=10))
    said = team.clone.pulumi("up", "--yes", "--skip-preview", *team.words, check=False)
    assert "error" in said
    assert phase(team.jobs()["stuck"]) in {"Pending", "Running"}


def test_a_label_changes_the_job_in_place_and_its_command_does_not(team: Team) -> None:
    team.declare(batch("kept", "true", wait_seconds=120))
    team.up()
    before = team.jobs()["kept"]["metadata"]
    team.declare(batch("kept", "true", wait_seconds=120, labels={"team": "vision"}))
    assert "replace" not in team.clone.pulumi("preview", "--diff", *team.words)
    team.up()
    labelled = team.jobs()["kept"]["metadata"]
    assert (labelled["uid"], labelled["labels"]["team"]) == (before["uid"], "vision")
    team.declare(batch("kept", "exit 0", wait_seconds=120))
    assert "replace" in team.clone.pulumi("preview", "--diff", *team.words)


def test_why_says_what_no_node_has(team: Team) -> None:
    team.declare(batch("huge", cpu="500"))
    team.up()
    wait_until(
        lambda: team.jobs().get("huge", {}).get("status", {}).get("state", {}).get("phase") == "Pending", "it to wait"
    )
    said = wait_until(lambda: said if "500" in (said := team.clone.make("why", "JOB=huge")) else "", "the reason", 30)
    assert "cpu" in said


def test_why_says_that_an_image_is_not_there(team: Team) -> None:
    team.declare(batch("imageless", image="registry.invalid/none:1"))
    team.up()
    said = wait_until(
        lambda: said if "registry.invalid/none:1" in (said := team.clone.make("why", "JOB=imageless")) else "",
        "the reason",
        90,
    )
    assert "image" in said


def test_a_job_runs_once_more_on_request(served: Clone) -> None:
    before = served.objects("jobs.batch.volcano.sh", "-n", "athanor", "-l", "athanor.dev/job=digits-training")
    served.make("rerun", "JOB=digits-training")
    after = served.objects("jobs.batch.volcano.sh", "-n", "athanor", "-l", "athanor.dev/job=digits-training")
    assert [job["metadata"]["name"] for job in after] == [job["metadata"]["name"] for job in before]
    assert [job["metadata"]["uid"] for job in after] != [job["metadata"]["uid"] for job in before]
    [job] = [job["metadata"]["name"] for job in after]
    wait_until(
        lambda: (
            phase(json.loads(served.kubectl("get", "jobs.batch.volcano.sh", job, "-n", "athanor", "-o", "json")))
            == "Completed"
        ),
        f"{job} to complete again",
        180,
    )


@pytest.fixture(scope="class")
def cleaned(served: Clone, team: Team) -> Iterator[dict[str, Any]]:
    served.pulumi("config", "set", "--path", "athanor:clean_up.enabled", "true")
    served.pulumi("up", "--yes", "--skip-preview")
    try:
        team.declare(
            batch("gone", pods=2, ttl_seconds_after_finished=0, wait_seconds=120) + batch("stays", wait_seconds=120)
        )
        team.up()
        before = team.jobs()
        cron = ("-n", "job-cleanup-system")
        served.kubectl("create", "job", "--from=cronjob/job-cleanup", "once", *cron)
        served.kubectl("wait", "--for=condition=Complete", "job/once", *cron, "--timeout=90s")
        yield before
    finally:
        served.pulumi("config", "rm", "athanor:clean_up")
        served.pulumi("up", "--yes", "--skip-preview")


class TestCleanUp:
    """Finished pods go after their time; the job stays what it was, whatever is refreshed or restarted."""

    def test_its_pods_are_gone_and_others_are_not(self, served: Clone, cleaned: dict[str, Any]) -> None:
        assert phase(cleaned["gone"]) == "Completed"
        assert pods(served, "gone") == {}
        assert len(pods(served, "stays")) == 1

    def test_the_job_does_not_come_back(self, team: Team, cleaned: dict[str, Any]) -> None:
        served = team.clone
        served.kubectl("rollout", "restart", "deployment/volcano-controllers", "-n", "volcano-system")
        served.kubectl("rollout", "status", "deployment/volcano-controllers", "-n", "volcano-system", "--timeout=120s")
        served.pulumi("refresh", "--yes", "--expect-no-changes", *team.words)
        served.pulumi("up", "--yes", "--expect-no-changes", *team.words)
        job = team.jobs()["gone"]
        assert job["metadata"]["uid"] == cleaned["gone"]["metadata"]["uid"]
        assert phase(job) == "Completed"
        assert pods(served, "gone") == {}
