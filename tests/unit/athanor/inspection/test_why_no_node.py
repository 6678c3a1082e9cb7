"""Why pods have no nodes: each cause one sentence with a next step."""

from __future__ import annotations

from athanor.inspection.node_fit import selects
from athanor.inspection.why import why
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import (
    case,
    event,
    gpu_node,
    gpu_spec,
    group,
    job,
    pod,
    pod_spec,
    pods,
    priority_class,
    queue,
    sentence_about,
    task,
    unplaced,
)


def test_too_few_free_gpus_are_reported_with_need_free_and_largest():
    other, new = job("other", task("worker", 3, gpu_spec(5))), job("my-run", task("worker", 4, gpu_spec(4)))
    nodes = [gpu_node(f"a10-{index}") for index in range(3)]
    busy = [pod(other, index=index, node=f"a10-{index}") for index in range(3)]
    said = sentence_about(case(new, jobs=[other], nodes=nodes, pods=[*busy, *pods(new)]), "no-room")
    assert "not enough free GPUs for my-run" in said
    assert "(nvidia.com/gpu: needs 16, 9 free in pool a10, largest free per node 3)" in said


def test_nodes_that_belong_to_no_pool_are_named_themselves():
    other, new = (
        job("other", task("worker", 1, pod_spec(pool=None, cpu="60"))),
        job("my-run", task("worker", 1, pod_spec(pool=None, cpu="8"))),
    )
    nodes = [gpu_node("node-0")]
    nodes[0]["metadata"]["labels"] = {}
    said = sentence_about(case(new, jobs=[other], nodes=nodes, pods=[pod(other, node="node-0"), pod(new)]), "no-room")
    assert "4 free in the nodes it may use (node-0), largest free" in said
    many = [{**nodes[0], "metadata": {"name": f"node-{index}"}} for index in range(9)]
    huge = job("my-run", task("worker", 1, pod_spec(pool=None, cpu="500")))
    said = sentence_about(case(huge, nodes=many, pods=[pod(huge)]), "too-large")
    assert "the largest node in the nodes it may use (node-0, node-1, node-2, node-3, node-4, …) has 64" in said


def test_a_queue_that_is_not_there_is_named_before_volcanos_controller_has_done_anything():
    """It does nothing at all with such a job: no PodGroup, no pods, no event."""
    new = job(phase="", queue="vision")
    said = sentence_about(case(new, pod_groups=[]), "no-queue")
    assert "uses the queue 'vision', which does not exist; next: use one of training" in said


def test_a_gang_of_which_some_could_start_is_incomplete():
    other, new = job("other", task("worker", 1, gpu_spec(8))), job("my-run", task("worker", 4, gpu_spec(4)))
    nodes = [gpu_node("a10-0"), gpu_node("a10-1")]
    said = sentence_about(case(new, jobs=[other], nodes=nodes, pods=[pod(other, node="a10-0"), *pods(new)]), "gang")
    assert "2 of the 4 waiting worker pods can be placed, and none starts until all can" in said
    assert "needs 16, 8 free in pool a10, largest free per node 8" in said


def test_an_elastic_job_runs_and_says_what_the_rest_waits_for():
    elastic = job("my-run", task("worker", 3, gpu_spec(8), minAvailable=1), phase="Running", spec={"minAvailable": 1})
    situation = case(elastic, pods=[pod(elastic, node="a10-0"), pod(elastic, index=1), pod(elastic, index=2)])
    assert "needs 16, 0 free in pool a10" in sentence_about(situation, "no-room")


def test_cpu_and_memory_can_be_short_too():
    new = job("my-run", task("worker", 1, pod_spec(memory="200Gi")))
    other = job("other", task("worker", 1, pod_spec(memory="100Gi")))
    said = sentence_about(case(new, jobs=[other], pods=[pod(other, node="a10-0"), pod(new)]), "no-room")
    assert "not enough free memory for my-run (memory: needs 200 GiB, 156 GiB free in pool a10" in said


def test_ended_pods_hold_nothing():
    done, new = job("other", phase="Completed"), job("my-run", task("worker", 1, gpu_spec(8)))
    situation = case(new, jobs=[done], pods=[*pods(done, "a10-0", phase="Succeeded"), pod(new)])
    assert why(situation).cause == "scheduler"


def test_a_pod_larger_than_any_node_is_reported_to_be():
    said = sentence_about(case(job("my-run", task("worker", 1, gpu_spec(16)))), "too-large")
    assert "one worker of my-run requests 16 nvidia.com/gpu, but the largest node in pool a10 has 8" in said


def test_a_pool_without_nodes_is_not_scaled_up_yet():
    said = sentence_about(case(job(), nodes=[gpu_node("v100-0", pool="v100")]), "no-node")
    assert "no node matches pool a10, where worker of my-run must run" in said
    assert "wait for its nodes (`kubectl get nodes -L athanor.dev/pool`)" in said


def test_a_node_affinity_selects_nodes_as_a_selector_does():
    spec = gpu_spec(1, pool=None)
    match = {"key": "athanor.dev/pool", "operator": "In", "values": ["l20", "h20"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert "no node matches pool l20 or h20" in sentence_about(case(job("my-run", task("worker", 1, spec))), "no-node")


@each_row(
    ("operator", "value", "values", "selected"),
    [
        ("Gt", "8", ["4"], True),
        ("Lt", "8", ["4"], False),
        ("Lt", "-8", ["4"], True),
        ("Gt", "8", ["many"], False),
        ("Gt", "8", [], False),
        ("Gt", "9" * 5000, ["4"], False),
        ("Like", "8", ["4"], False),
        (None, "8", ["4"], False),
    ],
)
def test_whatever_a_job_or_a_node_says_is_compared_or_does_not_fit(operator, value, values, selected):
    match = {"key": "gpus", "values": values, **({"operator": operator} if operator else {})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    assert selects(spec, {"metadata": {"name": "n", "labels": {"gpus": value}}}) is selected


def test_taints_that_keep_all_pods_away_are_counted():
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    nodes = [gpu_node("a10-0", taints=[taint]), gpu_node("a10-1", taints=[taint]), gpu_node("a10-2", ready=False)]
    said = sentence_about(case(job(), nodes=nodes), "taint")
    assert "none of the 3 nodes of pool a10 takes worker of my-run" in said
    assert "2 taint nvidia.com/gpu=present:NoSchedule, 1 not ready" in said


def test_nodes_that_are_just_coming_back_are_waited_for():
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    said = sentence_about(case(job(), nodes=[gpu_node("a10-0", taints=[taint])]), "taint")
    assert "1 not ready" in said
    assert "wait until the nodes are back" in said


def test_a_tolerated_taint_keeps_nobody_away():
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    spec = {**gpu_spec(8), "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}
    tolerant = job("my-run", task("worker", 1, spec))
    situation = case(tolerant, pods=pods(tolerant), nodes=[gpu_node("a10-0", taints=[taint])])
    assert why(situation).cause == "scheduler"


def test_a_queue_that_is_not_there_is_reported_with_those_that_are():
    said = sentence_about(case(job(queue="trainign")), "no-queue")
    assert "uses the queue 'trainign', which does not exist; next: use one of training" in said


def test_a_closed_queue_is_reported():
    assert "queue 'training' is closed" in sentence_about(case(job(), queues=[queue(state="Closed")]), "queue-closed")


def test_a_queue_at_its_limit_is_reported_with_its_numbers():
    other, new = job("other", task("worker", 1, gpu_spec(8))), job("my-run", task("worker", 1, gpu_spec(4)))
    nodes = [gpu_node("a10-0"), gpu_node("a10-1")]
    situation = case(
        new,
        jobs=[other],
        nodes=nodes,
        pods=[pod(other, node="a10-0"), pod(new)],
        queues=[queue(capability={"nvidia.com/gpu": "8"})],
    )
    said = sentence_about(situation, "queue-limit")
    assert "queue 'training' is at its limit: 8 of 8 nvidia.com/gpu are used, and the job needs 4 more" in said
    assert "scheduling.queues[training].capability" in said


def test_a_job_that_its_queue_can_never_take_is_reported():
    situation = case(
        job(), nodes=[gpu_node("a10-0"), gpu_node("a10-1")], queues=[queue(capability={"nvidia.com/gpu": 8})]
    )
    assert "the job needs 16 nvidia.com/gpu at once, but queue 'training' may use only 8" in sentence_about(
        situation, "queue-limit"
    )


def test_what_is_kept_for_other_queues_is_not_had():
    kept = queue("serving", guarantee={"resource": {"nvidia.com/gpu": "8"}})
    situation = case(job(), nodes=[gpu_node("a10-0"), gpu_node("a10-1")], queues=[queue(), kept])
    said = sentence_about(situation, "queue-limit")
    assert "the cluster has 16, 8 are reserved for other queues" in said


def test_jobs_of_a_higher_priority_come_first():
    urgent = job("urgent", spec={"priorityClassName": "high"})
    new = job("my-run", task("worker", 1, gpu_spec(1)))
    situation = case(
        new,
        jobs=[urgent],
        pods=pods(new),
        pod_groups=[group(new), group(urgent, created="2026-11-21T11:00:00Z")],
        priority_classes=[priority_class("high", 1000)],
    )
    said = sentence_about(situation, "behind")
    assert "1 waiting job of queue 'training' comes before my-run (1 with a higher priority than its 0: urgent)" in said


def test_older_jobs_of_the_same_priority_come_first():
    older, new = job("older"), job("my-run", task("worker", 1, gpu_spec(1)))
    groups = [group(new), group(older, created="2026-11-21T09:00:00Z")]
    said = sentence_about(case(new, jobs=[older], pods=pods(new), pod_groups=groups), "behind")
    assert "(of its priority, but older: older)" in said


@each_row(
    ("message", "where"),
    [
        ("resource in cluster is overused: overused nvidia.com/gpu", "the cluster"),
        ("queue resource quota insufficient: insufficient cpu", "queue 'training'"),
    ],
)
def test_a_job_that_is_not_let_in_says_what_is_full(message, where):
    new = job("my-run", task("worker", 1, gpu_spec(1)))
    pending = group(new, "Pending")
    said = sentence_about(case(new, pod_groups=[pending], events=[event(pending, "Unschedulable", message)]), "enqueue")
    assert f"because {where} has no room for all of it ({message})" in said


def test_volcanos_own_words_are_the_last_resort():
    new = job("my-run", task("worker", 2, gpu_spec(1)))
    spread = "0/1 nodes are unavailable: 1 node(s) didn't match pod topology spread constraints."
    waits = [pod(new, **unplaced("Pod athanor/x can possibly be assigned to a10-0", "Schedulable"))]
    waits.append(pod(new, index=1, **unplaced(spread)))
    said = sentence_about(case(new, pods=waits), "unschedulable")
    assert f"(1 of its 2 waiting pods could be placed): {spread}" in said


def test_the_gangs_condition_speaks_where_no_pod_does():
    new = job("my-run", task("worker", 2, gpu_spec(1)))
    message = (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable."
        " Origin reason is my-run-0a1b2c3d-worker-0: 0/1 nodes are unavailable: 1 hyperNode tier."
    )
    said = sentence_about(case(new, pods=pods(new), pod_groups=[group(new, message=message)]), "unschedulable")
    assert "Volcano finds no nodes for my-run: my-run-0a1b2c3d-worker-0: 0/1 nodes are unavailable: 1 hyperNode" in said


def test_what_cannot_be_read_is_not_taken_for_missing():
    """A team with a role in its namespace alone sees neither nodes nor queues."""
    new = job()
    waits = [pod(new, **unplaced("0/9 nodes are unavailable: 9 Insufficient nvidia.com/gpu."))]
    situation = case(new, pods=waits, nodes=[], queues=[], unreadable=["queues", "nodes"])
    assert "9 Insufficient nvidia.com/gpu" in sentence_about(situation, "unschedulable")


def test_other_namespaces_jobs_of_the_same_name_are_another_jobs():
    new = job("my-run", task("worker", 1, gpu_spec(8)))
    foreign = pod(new, node="a10-0")
    foreign["metadata"]["namespace"] = "elsewhere"
    situation = case(new, pods=[foreign, pod(new)])
    assert len(situation.pods) == 1
    assert why(situation).cause == "no-room"


def test_a_node_that_the_job_does_not_select_is_never_counted():
    situation = case(
        job("my-run", task("worker", 1, gpu_spec(9))), nodes=[gpu_node("h20-0", 16, pool="h20"), gpu_node("a")]
    )
    assert "largest node in pool a10 has 8" in sentence_about(situation, "too-large")
