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


NAS = "alicloud:nas/fileSystem:FileSystem"
DEPLOYMENT, SERVICE = "kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Service"
QUEUE = "kubernetes:scheduling.volcano.sh/v1beta1:Queue"


STATEFUL, BATCH = "kubernetes:apps/v1:StatefulSet", "kubernetes:batch/v1:Job"


def scaled(replicas: int) -> dict[str, Any]:
    keeps = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    return {**named("data"), "spec": {"replicas": replicas, "persistentVolumeClaimRetentionPolicy": keeps}}


def selecting(app: str) -> dict[str, Any]:
    return {**named("digits"), "spec": {"selector": {"app": app}}}


def suspended(suspend: bool) -> dict[str, Any]:
    return {**named("train"), "spec": {"suspend": suspend}}


def on_nas(server: str) -> dict[str, Any]:
    attributes = {"server": server, "path": "/data"}
    return {"spec": {"persistentVolumeReclaimPolicy": "Retain", "csi": {"volumeAttributes": attributes}}}


@each_row(
    ("server", "says"),
    [
        ("31a8e4c2-abc12.cn-hangzhou.nas.aliyuncs.com", "its files go with nas, which is replaced, too"),
        ("9f0000d1-abc12.cn-hangzhou.nas.aliyuncs.com", "its files stay where they are (reclaim policy Retain)"),
    ],
    ids=["on it", "on another"],
)
def test_a_volume_is_lost_with_its_file_system(server: str, says: str) -> None:
    nas = step("replace", NAS, "nas", {"zoneId": "i"}, {"zoneId": "j"})
    nas["oldState"]["outputs"] = {"id": "31a8e4c2"}
    text = reported(nas, step("replace", VOLUME, "data", on_nas(server), on_nas("new")))
    assert says in text
    assert ": its files may be lost" in text


def test_a_mount_target_takes_no_files_with_it() -> None:
    text = reported(step("delete", "alicloud:nas/mountTarget:MountTarget", "target", {}))
    assert "what is mounted by it hangs; its files stay" in text


SERVING = running(
    cluster(
        {
            **pod("digits-5c7d9-x1"),
            "metadata": {
                "namespace": "athanor",
                "name": "digits-5c7d9-x1",
                "labels": {"pod-template-hash": "5c7d9", "athanor.dev/service": "digits"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "digits-5c7d9"}],
            },
        },
        pod("train-0", athanor_dev__job="train"),
    )
)


@each_row(
    ("change", "says", "stops"),
    [
        (
            step("delete", DEPLOYMENT, "digits", named("digits")),
            "**service `digits` deleted**: clients get no answers from it any more",
            "Stops: `service digits` in `athanor` (1 pod, 2 GPUs).",
        ),
        (
            step("delete", DEPLOYMENT, "other", named("digits-5c7d9")),
            "**service `other` deleted**",
            "Nothing that runs now stops.",
        ),
        (
            step(
                "update",
                DEPLOYMENT,
                "digits",
                {**named("digits"), "spec": {"replicas": 3}},
                {**named("digits"), "spec": {"replicas": 0}},
            ),
            "**service `digits` shrinks**: clients get no answers from it any more: it has no replicas left",
            "Stops: `service digits` in `athanor` (1 pod, 2 GPUs).",
        ),
        (
            step("delete", "kubernetes:apps/v1:DaemonSet", "plugin", named("plugin")),
            "**add-on `plugin` deleted**: nodes lose what it gives them, such as mounts, networks or GPUs",
            "the cluster's objects do not tell",
        ),
        (
            step("replace", SERVICE, "digits", named("digits"), named("digits"), replaceReasons=["spec.clusterIP"]),
            "clients get no answers from it until its replacement is ready",
            "Nothing that runs now stops.",
        ),
        (
            step("delete", QUEUE, "queue-research", named("athanor-research", "")),
            "jobs that wait in it do not start any more",
            "Nothing that runs now stops.",
        ),
        (
            step("update", STATEFUL, "data", scaled(3), scaled(1)),
            "**service `data` shrinks**: it shrinks from 3 to 1 replicas, and the claims of those pods are deleted",
            "Nothing that runs now stops.",
        ),
        (
            step("delete", STATEFUL, "data", scaled(3)),
            "any more, and the claims of those pods are deleted (whenDeleted: Delete)",
            "Nothing that runs now stops.",
        ),
        (
            step("update", SERVICE, "digits", selecting("a"), selecting("b")),
            "**service `digits` changes**: clients get their answers from other pods, or none",
            "Nothing that runs now stops.",
        ),
        (
            step("delete", "kubernetes:networking.k8s.io/v1beta1:Ingress", "digits", named("digits")),
            "**service `digits` deleted**",
            "Nothing that runs now stops.",
        ),
        (
            step("delete", "kubernetes:serving.kserve.io/v1beta1:InferenceService", "digits", named("digits")),
            "**service `digits` deleted**",
            "the cluster's objects do not tell",
        ),
        (
            step("delete", "kubernetes:core/v1:Pod", "train", named("train-0")),
            "**job `train` deleted**: it stops",
            "Stops: `job train` in `athanor` (1 pod, 2 GPUs).",
        ),
        (
            step("update", BATCH, "train", suspended(False), suspended(True)),
            "**job `train` is suspended**: its pods end until it is resumed",
            "Stops: `job train` in `athanor` (1 pod, 2 GPUs).",
        ),
        (
            step("delete", "kubernetes:helm.sh/v3:Release", "database", {}),
            "everything that it installed is deleted",
            "the cluster's objects do not tell",
        ),
        (
            step("delete", "alicloud:kms/key:Key", "disks", {}),
            "nobody can read any more what was encrypted with it",
            "the cluster's objects do not tell",
        ),
        (
            step("delete", "alicloud:vpc/snatEntry:SnatEntry", "nodes", {}),
            "nodes and pods that use it lose their connections",
            "the cluster's objects do not tell",
        ),
        (
            step("delete", "alicloud:vpc/natGateway:NatGateway", "nat", {}),
            "nodes and pods that use it lose their connections",
            "the cluster's objects do not tell",
        ),
    ],
    ids=lambda value: value["urn"].split("::")[2] if isinstance(value, dict) else "",
)
def test_what_clients_and_waiting_jobs_lose_is_at_stake(change: dict[str, Any], says: str, stops: str) -> None:
    text = reported(change, running=SERVING)
    assert says in text
    assert stops in text
    assert reviewed(change, running=SERVING).destructive


def test_jobs_of_a_queue_are_found_by_their_label() -> None:
    train = pod("train-0", athanor_dev__job="train")
    train["metadata"]["labels"]["volcano.sh/queue-name"] = "athanor-research"
    text = reported(step("delete", QUEUE, "q", named("athanor-research", "")), running=running(cluster(train)))
    assert "Stops: `job train` in `athanor` (1 pod, 2 GPUs)." in text


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


def test_what_no_work_is_known_of_is_at_stake_but_nodes_and_cron_jobs_may_be_idle() -> None:
    assert reviewed(step("update", STATEFUL, "data", scaled(3), scaled(0))).destructive
    assert not reviewed(step("update", POOL, "a10", pool(0, 4), pool(0, 0))).destructive
    cron = step("update", "kubernetes:batch/v1:CronJob", "nightly", suspended(False), suspended(True))
    assert "at stake" not in reported(cron)


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
