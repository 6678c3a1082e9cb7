"""Jobs on the real cluster: a lost pod, a changed job, a new model version."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import tritonclient.http as triton

from tests.cluster.test_make_up import service_address
from tests.fixtures.clone import Clone, wait_until
from trainer import digits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG_RUN = {"epochs": "100", "width": "64"}  # about a minute


def job_phase(clone: Clone, job: str) -> str:
    found = json.loads(clone.kubectl("get", "jobs.batch.volcano.sh", job, "-n", "athanor", "-o", "json"))
    return found.get("status", {}).get("state", {}).get("phase", "")


def step_losses(clone: Clone, job: str, rank: int = 0) -> list[tuple[int, Any]]:
    """Return (step, loss) in the order in which a rank logged them, over all its lives."""
    folder: Path = clone.home / "local" / "volumes" / "output" / job / "logs"
    records: list[tuple[int, Any]] = []
    for file in sorted(folder.glob(f"rank-{rank:05d}.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if "loss" in event:
                records.append((event["step"], event["loss"]))
    return records


@pytest.fixture(scope="module")
def retrained(served: Clone) -> Iterator[dict[str, Any]]:
    """A longer run under a new name, one of whose pods is deleted half-way, while clients keep asking the service."""
    before = served.outputs()["digits_training_job"]
    for key, value in LONG_RUN.items():
        served.pulumi("config", "set", "--path", f"athanor:digits.{key}", value)
    failures: list[str] = []
    versions: list[str] = []
    stop = threading.Event()
    asking = threading.Thread(target=keep_asking, args=(service_address(served), stop, failures, versions))
    asking.start()
    try:
        preview = served.pulumi("preview", "--diff")
        served.pulumi("up", "--yes", "--skip-preview")
        job = served.outputs()["digits_training_job"]
        wait_until(lambda: step_losses(served, job), "first steps")
        checkpoints = served.home / "local" / "volumes" / "output" / job / "checkpoints"
        wait_until(lambda: list(checkpoints.glob("step-*")), "first checkpoint")
        metrics = training_metrics(served, job)
        served.kubectl("delete", "pod", f"{job}-worker-1", "-n", "athanor")
        wait_until(lambda: job_phase(served, job) == "Completed", f"{job} to complete", 300)
        wait_until(lambda: versions and versions[-1] == "2", "version 2 to be served")
    finally:
        stop.set()
        asking.join()
    yield {
        "before": before, "job": job, "failures": failures, "versions": versions, "preview": preview, "metrics": metrics
    }  # fmt: skip
    served.pulumi("config", "rm", "athanor:digits")


def training_metrics(clone: Clone, job: str) -> str:
    """Return what rank 1 tells Prometheus."""
    pod = json.loads(clone.kubectl("get", "pod", f"{job}-worker-1", "-n", "athanor", "-o", "json"))
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8002/metrics", timeout=10) as answer:
        return answer.read().decode()


def keep_asking(address: str, stop: threading.Event, failures: list[str], versions: list[str]) -> None:
    """Ask without a pause; note every failure and every change of the answering version."""
    images = digits.from_source("held_out").images[:4]
    client = triton.InferenceServerClient(address)
    tensor = triton.InferInput("image", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    while not stop.is_set():
        try:
            version = client.infer("digits", [tensor]).get_response()["model_version"]
        except Exception as error:  # noqa: BLE001 - every kind of failure counts
            failures.append(repr(error))
            continue
        if not versions or versions[-1] != version:
            versions.append(version)


def test_a_changed_job_is_a_new_object_and_the_preview_says_so(served: Clone, retrained: dict[str, Any]) -> None:
    assert retrained["job"] != retrained["before"]
    assert "replace" in retrained["preview"]
    assert f"--epochs={LONG_RUN['epochs']}" in retrained["preview"]
    names = [job["metadata"]["name"] for job in served.objects("jobs.batch.volcano.sh", "-n", "athanor")]
    assert names == [retrained["job"]]


def test_a_job_that_loses_a_pod_resumes_exactly(served: Clone, retrained: dict[str, Any]) -> None:
    losses = step_losses(served, retrained["job"])
    steps = [step for step, _ in losses]
    repeated = {step for step in steps if steps.count(step) > 1}

    assert steps != sorted(set(steps)), "nothing was done twice: the pod was not deleted half-way"
    assert steps.count(min(steps)) == 1, "training started again from the beginning"
    for step in repeated:
        assert len({loss for seen, loss in losses if seen == step}) == 1, f"step {step} differs after the restart"


def test_a_new_version_takes_over_without_a_failed_request(retrained: dict[str, Any]) -> None:
    assert retrained["failures"] == []
    assert retrained["versions"] == ["1", "2"]


def test_every_rank_exposes_metrics_while_it_trains(retrained: dict[str, Any]) -> None:
    wanted = "loss samples_per_second step_seconds_count data_wait_seconds_count checkpoint_age_seconds"
    for name in wanted.split():
        found = re.search(rf'^athanor_training_{name}\{{.*rank="1".*\}} (\S+)', retrained["metrics"], re.MULTILINE)
        assert found, f"{name} is missing in:\n{retrained['metrics']}"
