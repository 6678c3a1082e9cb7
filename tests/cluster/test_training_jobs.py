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
from tests.waiting import wait_until
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.clone import Clone

# Inside a pod: kill -9 the training process, not torchrun above it.
KILL_TRAINING = """
import glob, os
for file in glob.glob("/proc/[0-9]*/cmdline"):
    pid = int(file.split("/")[2])
    words = open(file, "rb").read().split(b"\\0")
    if b"trainer.train" in words and not any(b"torch.distributed.run" in word for word in words):
        os.kill(pid, 9)
"""
LONG_RUN = {"digits.epochs": 50, "digits.width": 64}  # about half a minute
_PAUSE_SECONDS = 0.05
"""Between two requests, so that the job which the service waits for gets the CPUs."""


def job_phase(clone: Clone, job: str) -> str:
    manifest = clone.object("jobs", job)
    return manifest.get("status", {}).get("state", {}).get("phase", "")


def events(clone: Clone, job: str, rank: int = 0) -> list[dict[str, Any]]:
    """Return what a rank logged, over all its lives."""
    file: Path = clone.home / "local" / "volumes" / "output" / job / "logs" / f"rank-{rank:05d}.jsonl"
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    # The last line may be half written.
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def happened(clone: Clone, job: str) -> list[str]:
    """Return the names of rank 0's events."""
    return [event["event"] for event in events(clone, job)]


def after_last(names: list[str], name: str) -> list[str]:
    """Return what came after the last `name`."""
    return names[len(names) - names[::-1].index(name) :]


@pytest.fixture(scope="module")
def retrained(served: Clone) -> Iterator[dict[str, Any]]:
    """A longer run under a new name, one of whose pods is deleted half-way, while clients keep asking the service."""
    before = served.outputs()["digits_training_job"]
    served.configure_local(**LONG_RUN)
    failures: list[str] = []
    versions: list[str] = []
    stop = threading.Event()
    asking = threading.Thread(target=keep_asking, args=(service_address(served), stop, failures, versions))
    asking.start()
    try:
        preview = served.pulumi("up", "--yes", "--diff")
        job = served.outputs()["digits_training_job"]
        wait_until(lambda: "checkpoint_saved" in happened(served, job), "first checkpoint")
        metrics = training_metrics(served, job)
        served.kubectl("delete", "pod", f"{job}-worker-1", "-n", "athanor")
        wait_until(lambda: "resumed" in happened(served, job), "the job to resume after a pod was deleted")
        wait_until(lambda: "checkpoint_saved" in after_last(happened(served, job), "resumed"), "the next checkpoint")
        served.kubectl("exec", f"{job}-worker-0", "-n", "athanor", "--", "python3", "-c", KILL_TRAINING)
        wait_until(
            lambda: job_phase(served, job) == "Completed",
            f"{job} to complete",
            moves=lambda: len(events(served, job)),
        )
        wait_until(lambda: versions and versions[-1] == "2", "version 2 to be served")
    finally:
        stop.set()
        asking.join()
    yield {
        "before": before, "job": job, "failures": failures, "versions": versions, "preview": preview,
        "metrics": metrics,
    }  # fmt: skip
    served.pulumi("config", "rm", "athanor:digits")


def training_metrics(clone: Clone, job: str) -> str:
    """Return the metrics that rank 1 serves."""
    pod = clone.object("pods", f"{job}-worker-1")
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8002/metrics", timeout=10) as answer:
        return answer.read().decode()


def keep_asking(address: str, stop: threading.Event, failures: list[str], versions: list[str]) -> None:
    """Ask again and again; note every failure and every change of the answering version."""
    images = digits.from_source("held_out").images[:4]
    client = triton.InferenceServerClient(address)
    tensor = triton.InferInput("image", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    while not stop.wait(_PAUSE_SECONDS):
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
    assert f"--epochs={LONG_RUN['digits.epochs']}" in retrained["preview"]
    names = [job["metadata"]["name"] for job in served.objects("jobs")]
    assert names == [retrained["job"]]


def test_a_deleted_pod_costs_no_step(served: Clone, retrained: dict[str, Any]) -> None:
    seen = events(served, retrained["job"])
    stopped = next(event for event in seen if event["event"] == "stopped")
    resumed = next(event for event in seen if event["event"] == "resumed")

    assert stopped["step"] > 0
    assert resumed["step"] == stopped["step"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_resumes_exactly(served: Clone, retrained: dict[str, Any], rank: int) -> None:
    seen = events(served, retrained["job"], rank)
    assert [event["event"] for event in seen].count("resumed") == 2
    losses: dict[int, set[float]] = {}
    for event in seen:
        if event["event"] == "step":
            losses.setdefault(event["step"], set()).add(event["loss"])

    resumed = [event["step"] for event in seen if event["event"] == "resumed"]
    assert resumed[1] >= resumed[0], "training started again from before the first resume"
    assert [step for step, values in losses.items() if len(values) > 1] == [], "a repeated step had another loss"
    assert max(losses) == seen[-1]["step"]


def test_a_new_version_takes_over_without_a_failed_request(retrained: dict[str, Any]) -> None:
    assert retrained["failures"] == []
    assert retrained["versions"] == ["1", "2"]


def test_every_rank_exposes_metrics_while_it_trains(retrained: dict[str, Any]) -> None:
    names = "loss samples_per_second step_seconds_count data_wait_seconds_count checkpoint_age_seconds"
    for name in names.split():
        sample = re.search(rf'^athanor_training_{name}\{{.*rank="1".*\}} (\S+)', retrained["metrics"], re.MULTILINE)
        assert sample, f"{name} is missing in:\n{retrained['metrics']}"
