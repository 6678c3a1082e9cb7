"""What a change stops: by the pods that run on a pool, in a namespace, of a job, with a volume."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from athanor.review.running_work import ask, running
from tests.tables import each_row
from tests.unit.athanor.review.digests import CLAIM, CLUSTER, JOB, POOL, pool, reported, reviewed, step

VOLUME = "kubernetes:core/v1:PersistentVolume"


def pod(
    name: str, node: str = "node-1", *, phase: str = "Running", owner: str = "Job", **labels: str
) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "athanor",
            "labels": {key.replace("__", "/").replace("_dev", ".dev"): value for key, value in labels.items()},
            "ownerReferences": [{"kind": owner, "name": "owner"}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}],
            "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}],
        },
        "status": {"phase": phase},
    }


def cluster(*pods: dict[str, Any]) -> str:
    node = {"kind": "Node", "metadata": {"name": "node-1", "labels": {"athanor.dev/pool": "a10"}}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "athanor"},
        "spec": {"volumeName": "athanor-data"},
    }
    return json.dumps({"kind": "List", "items": [node, claim, *pods]})


WORKERS = [pod(f"train-{number}", athanor_dev__job="train") for number in range(2)]
OTHERS = [
    pod("log-collector", owner="DaemonSet"),
    pod("ended", phase="Succeeded", athanor_dev__job="ended"),
    {**pod("waiting"), "spec": {"containers": []}},
]
RUNNING = running(cluster(*WORKERS, *OTHERS))
STOPS = "Stops: `job train` in `athanor` (2 pods, 4 GPUs)."


def named(name: str, namespace: str = "athanor") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


@each_row(
    "change",
    [
        step("delete", CLUSTER, "cluster", {"name": "c"}),
        step("replace", POOL, "a10", pool(0, 4), pool(0, 4), replaceReasons=["vswitchIds"]),
        step("delete", JOB, "train", named("train")),
        step("delete", CLAIM, "data", named("data")),
        step("delete", VOLUME, "volume", {"metadata": {"name": "athanor-data"}}),
        step("delete", "kubernetes:core/v1:Namespace", "namespace", {"metadata": {"name": "athanor"}}),
    ],
    ids=lambda change: change["urn"].split("::")[2],
)
def test_the_jobs_that_stop_are_named(change: dict[str, Any]) -> None:
    text = reported(change, running=RUNNING)
    assert STOPS in text
    assert "ended" not in text
    assert "log-collector" not in text


@each_row(
    "change",
    [
        step("delete", POOL, "other", pool(0, 4)),
        step("delete", JOB, "ended", named("ended")),
        step("delete", CLAIM, "data", named("data", "elsewhere")),
    ],
    ids=lambda change: change["urn"].split("::")[2],
)
def test_what_nothing_uses_stops_nothing(change: dict[str, Any]) -> None:
    assert "Nothing that runs now stops." in reported(change, running=RUNNING)


def test_a_job_has_ended_only_if_the_cluster_says_so() -> None:
    change = step("delete", JOB, "ended", named("ended"))
    assert reviewed(change).destructive
    assert not reviewed(change, running=RUNNING).destructive
    assert reviewed(step("delete", POOL, "other", pool(0, 4)), running=RUNNING).destructive


def test_a_pool_that_shrinks_is_at_stake_where_pods_may_go() -> None:
    to_none = step("update", POOL, "a10", pool(0, 4), pool(0, 0))
    assert reviewed(to_none, running=RUNNING).destructive
    assert STOPS in reported(to_none, running=RUNNING)
    to_one = step("update", POOL, "a10", pool(0, 4), pool(0, 1))
    assert not reviewed(to_one, running=RUNNING).destructive
    assert "it shrinks from at most 4 to 1 nodes" in reported(to_one, running=RUNNING)
    assert "at stake" not in reported(step("update", POOL, "a10", pool(0, 4), pool(0, 5)))


def test_why_the_cluster_was_not_asked_is_said() -> None:
    change = step("delete", CLUSTER, "cluster", {"name": "c"})
    assert "What runs there now: not asked." in reported(change)
    assert "`no such host`" in reported(change, running="no such host")


def test_the_rest_comes_after_what_is_at_stake() -> None:
    text = reported(step("create", name="aaa", new={}), step("delete", CLUSTER, "cluster", {}))
    assert text.index("**cluster `cluster` deleted**") < text.index("`aaa`")


@each_row("text", ["", "null", "[]", "{}", '{"items": null}', "error: refused"])
def test_what_is_not_a_list_of_objects_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of JSON or of ours
        running(text)


def test_the_largest_loss_comes_first() -> None:
    text = reported(
        step("delete", JOB, "a", named("a")), step("delete", POOL, "b", {}), step("replace", CLUSTER, "c", {}, {})
    )
    assert text.index("cluster `c`") < text.index("node pool `b`") < text.index("job `a`")


def test_objects_without_anything_are_accepted() -> None:
    work = running(json.dumps({"items": [{}, 1, {"kind": "Pod"}, {"kind": "Node", "metadata": []}]}))
    assert work.pods == ()


def test_a_cluster_that_does_not_answer_ends_the_question(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    kubectl.chmod(0o755)
    with pytest.raises(subprocess.TimeoutExpired):
        ask(None, None, str(kubectl), timeout_seconds=0.3)


def test_the_question_names_the_place(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    kubectl.chmod(0o755)
    words = ask(Path("a/config"), "b", str(kubectl)).split()
    assert {"--kubeconfig=a/config", "--context=b", "--request-timeout=20s", "--all-namespaces"} <= set(words)
