"""What runs where, as the objects say it, for `make status` and `athanor status`."""

from __future__ import annotations

from athanor.inspection import gpus
from athanor.inspection.objects import Amounts, age, formatted, unread_words
from athanor.inspection.status import job_rows, pod_rows, role_words, service_rows, status
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import (
    NOW,
    gpu_node,
    gpu_spec,
    job,
    node,
    pod,
    pod_spec,
    pods,
    priority_class,
    queue,
    snapshot,
    task,
)


def test_a_jobs_row_holds_what_one_asks_first():
    mpi = job(
        "resnet",
        task("launcher", 1, pod_spec(pool=None)),
        task("worker", 2, gpu_spec(8)),
        phase="Running",
        status={"retryCount": 1},
        spec={"priorityClassName": "high"},
    )
    mpi_pods = [
        pod(mpi, "launcher", node="cpu-0"),
        pod(mpi, node="a10-0"),
        pod(mpi, index=1, node="a10-1", phase="Failed"),
    ]
    [row] = job_rows(snapshot(jobs=[mpi], pods=mpi_pods, priority_classes=[priority_class("high", 1000)]), NOW)
    assert row == [
        "resnet",
        "resnet-0a1b2c3d",
        "PyTorchJob",
        "Running",
        "launcher 1/1, worker 1/2 (1 failed)",
        "training",
        "high (1000)",
        "1",
        "2h30m",
    ]


def test_a_new_job_of_somebody_else_is_shown_too():
    plain = job(phase="", created="2026-11-21T12:30:00Z")
    plain["metadata"]["labels"] = {}
    [row] = job_rows(snapshot(jobs=[plain]), NOW)
    assert row[:5] == ["my-run-0a1b2c3d", "my-run-0a1b2c3d", "Job", "accepted", "worker 0/2"]
    assert row[-1] == "5s"


def test_a_job_without_a_priority_has_the_clusters_default():
    rows = job_rows(snapshot(jobs=[job()], priority_classes=[priority_class("usual", 7, globalDefault=True)]), NOW)
    assert rows[0][6] == "7"


def test_completed_jobs_still_show_what_their_pods_did():
    done = job(phase="Completed")
    assert role_words(done, pods(done, "a10-0", phase="Succeeded")) == "worker 0/2 (2 succeeded)"


def test_amounts_are_shown_as_a_person_writes_them():
    assert [formatted(8), formatted(0.5), formatted(4 * 2**30, "memory")] == ["8", "0.5", "4 GiB"]


@each_row(
    ("since", "words"),
    [("2026-11-21T12:30:00Z", "5s"), ("2026-11-21T12:00:00Z", "30m5s"), ("2026-11-19T11:30:05Z", "2d1h"), (None, "-")],
)
def test_ages_have_two_units(since, words):
    assert age(since, NOW) == words


def test_what_the_scheduler_reserves_counts_init_containers_once():
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "250m"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "3"}}},
        ],
        "overhead": {"cpu": "500m"},
    }
    requested = gpus.requests(spec)
    assert {key: float(value) for key, value in requested.items()} == {"cpu": 3.75, "nvidia.com/gpu": 2.0}


EVERY_KIND = {
    "nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 40, "nvidia.com/mig-1g.10gb": 7, "aliyun.com/gpu-mem": 24,
}  # fmt: skip


@each_row("kind", EVERY_KIND)
def test_every_kind_of_gpu_is_counted_by_node_and_queue(kind):
    run = job("run", task("worker", 1, pod_spec(pool=None, **{kind: 3})))
    kept = queue(guarantee={"resource": {kind: "4"}}, capability={kind: "7"})
    cluster = snapshot(jobs=[run], pods=pods(run, "n"), nodes=[node("n", **{kind: EVERY_KIND[kind]})], queues=[kept])
    assert gpus.node_rows(cluster) == [["a10", "n", kind, "3", str(EVERY_KIND[kind])]]
    assert gpus.queue_rows(cluster) == [["training", kind, "3", "4", "-", "7"]]


def test_nodes_without_gpus_and_pods_that_have_ended_or_wait_do_not_count():
    run = job("run", task("worker", 3, gpu_spec(2)))
    run_pods = [pod(run, node="a10-0"), pod(run, index=1), pod(run, index=2, node="a10-0", phase="Succeeded")]
    rows = gpus.node_rows(snapshot(pods=run_pods, nodes=[gpu_node("a10-0"), node("cpu-0", "cpu")]))
    assert rows == [["a10", "a10-0", "nvidia.com/gpu", "2", "8"]]
    assert gpus.queue_rows(snapshot(pods=run_pods)) == [["training", "nvidia.com/gpu", "2", "-", "-", "-"]]


def test_many_nodes_are_summed_by_pool():
    run = job("run", task("worker", 2, gpu_spec(8)))
    nodes = [*(gpu_node(f"a10-{index}") for index in range(30)), gpu_node("v100-0", 4, pool="v100")]
    cluster = snapshot(nodes=nodes, pods=[pod(run, node="a10-3"), pod(run, index=1, node="a10-4")])
    assert gpus.node_rows(cluster) == [
        ["a10", "30 nodes", "nvidia.com/gpu", "16", "240"],
        ["v100", "1 nodes", "nvidia.com/gpu", "0", "4"],
    ]


def test_where_other_namespaces_are_closed_the_queues_own_count_is_shown():
    counted = queue()
    counted["status"]["allocated"] = {"nvidia.com/gpu": "5"}
    cluster = snapshot(queues=[counted], unreadable=["pods of other namespaces"])
    assert gpus.queue_rows(cluster) == [["training", "nvidia.com/gpu", "5", "-", "-", "-"]]
    assert (
        unread_words(cluster)
        == "Not displayed, because this user does not have the right to list pods of other namespaces."
    )
    assert not unread_words(snapshot())


def test_a_services_row_says_what_is_ready_and_where():
    labels = {"app": "digits"}
    deployment = {
        "metadata": {"name": "digits"},
        "spec": {"replicas": 2, "template": {"metadata": {"labels": {**labels, "version": "1"}}}},
        "status": {"readyReplicas": 1},
    }
    ports = [{"name": "http", "port": 8000}, {"name": "metrics", "port": 8002}]
    service = {"metadata": {"name": "digits", "namespace": "athanor"}, "spec": {"selector": labels, "ports": ports}}
    headless = {"metadata": {"name": "job"}, "spec": {"ports": [{"port": 1}]}}
    rows = service_rows(snapshot(deployments=[deployment], services=[headless, service]))
    assert rows == [["digits", "1/2", "http://digits.athanor.svc:8000"]]


def test_nothing_asked_is_nothing():
    assert Amounts()["nvidia.com/gpu"] == 0


def _pod(**status: object) -> dict:
    return {
        "metadata": {"name": "pod-0"},
        "spec": {"nodeName": "local-node-0"},
        "status": {"phase": "Running", **status},
    }


READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
RESTARTS = [{"restartCount": 2}, {"restartCount": 1}]


@each_row(
    ("pod", "state", "restarts"),
    [
        (_pod(conditions=READY, containerStatuses=RESTARTS), "Ready", "3"),
        (_pod(conditions=[{"type": "Ready", "status": "False"}]), "Running, not ready", "0"),
        (_pod(), "Running, not ready", "0"),
        (_pod(phase="Succeeded"), "Succeeded", "0"),
        ({**_pod(), "metadata": {"name": "pod-0", "deletionTimestamp": "now"}}, "Terminating", "0"),
    ],
)
def test_a_pods_state_is_the_one_that_matters(pod, state, restarts):
    pod["metadata"]["namespace"] = "athanor"
    [[namespace, name, cell, node, count]] = pod_rows([pod])
    assert (namespace, name, node, count) == ("athanor", "pod-0", "local-node-0", restarts)
    assert state == cell


def test_a_pod_without_a_node_is_shown():
    pod = {"metadata": {"name": "pod-0", "namespace": "athanor"}, "spec": {}, "status": {}}
    assert pod_rows([pod]) == [["athanor", "pod-0", "Unknown", "-", "0"]]


def test_what_a_team_may_not_read_is_left_out_or_computed_from_its_own_pods():
    run = job("run", task("worker", 2, gpu_spec(2)), spec={"priorityClassName": "high"})
    closed = ["pods of other namespaces", "queues", "nodes", "priorityclasses"]
    parts = status(snapshot(jobs=[run], pods=pods(run, "a10-0"), queues=[], nodes=[], unreadable=closed), NOW)
    [jobs, _, by_queue, by_node] = parts
    assert jobs.rows[0][6] == "high"
    own = ", as far as this namespace's pods use them"
    assert (by_queue.title, by_node.title) == (f"GPUs by queue{own}", f"GPUs by node{own}")
    assert by_queue.rows == [["training", "nvidia.com/gpu", "4", "-", "-", "-"]]
    assert by_node.rows == [["-", "a10-0", "nvidia.com/gpu", "4", "-"]]


def test_what_of_the_namespace_may_not_be_read_has_no_table():
    run = job("run")
    parts = status(snapshot(jobs=[run], unreadable=["pods", "nodes"]), NOW)
    assert [part.title for part in parts] == ["Jobs"]
    assert parts[0].rows[0][4] == "-"
    assert [part.title for part in status(snapshot(unreadable=["jobs"]), NOW)] == ["Pods", "GPUs by node"]
