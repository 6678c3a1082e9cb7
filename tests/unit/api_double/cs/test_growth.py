from __future__ import annotations

from typing import Any

from tests.api_double.cs.growth import expected_node, fits, is_waiting, nodes_to_add

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def _pod(
    gpus: int, *, node: str = "", reason: str = "Unschedulable", phase: str = "Pending", **spec: Any
) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "True" if node else "False", "reason": reason}
    limits = {"resources": {"limits": {GPU: str(gpus)}}} if gpus else {}
    return {
        "spec": {"containers": [limits], "tolerations": [TOLERATION], **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": phase, "conditions": [condition]},
    }


def _node(name: str, gpus: int = 8, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [TAINT, {"key": "kwok", "value": "fake", "effect": "PreferNoSchedule"}]},
        "status": {"allocatable": {GPU: str(gpus)}},
    }


def test_waiting_is_to_have_been_looked_at_in_vain() -> None:
    assert is_waiting(_pod(1))
    assert is_waiting(_pod(1, reason="Undetermined"))
    assert not is_waiting(_pod(1, node="a"))
    assert not is_waiting(_pod(1, reason="SchedulingGated"))
    assert not is_waiting({"spec": {"containers": []}, "status": {}})


def test_as_many_nodes_as_the_pods_fill() -> None:
    assert nodes_to_add([_pod(8), _pod(8), _pod(4), _pod(4)], [], _node("sample"), GPU) == 3
    assert nodes_to_add([_pod(1)] * 9, [], _node("sample"), GPU) == 2
    assert nodes_to_add([_pod(5), _pod(5)], [], _node("sample"), GPU) == 2


def test_room_that_is_there_is_used_first() -> None:
    present = [_node("a"), _node("b")]
    gang = [_pod(8)] * 3
    assert nodes_to_add(gang, present, _node("sample"), GPU) == 1
    assert nodes_to_add([*gang, _pod(8, node="a", phase="Running")], present, _node("sample"), GPU) == 2
    assert nodes_to_add([*gang, _pod(8, node="a", phase="Succeeded")], present, _node("sample"), GPU) == 1


def test_nodes_are_not_added_for_pods_they_would_not_help() -> None:
    sample = _node("sample", pool="train")
    for pod in (
        _pod(0),
        _pod(9),
        _pod(1, node="a"),
        _pod(1, tolerations=[]),
        _pod(1, nodeSelector={"pool": "other"}),
    ):
        assert nodes_to_add([pod], [], sample, GPU) == 0
    assert nodes_to_add([_pod(1, nodeSelector={"pool": "train"})], [], sample, GPU) == 1


def test_an_empty_pool_is_expected_to_have_what_scalers_simulate_and_its_tags_name() -> None:
    """ACK, "FAQ about node instant scaling", "Node auto scaling FAQ"."""
    sample = _node("sample")
    sample["status"]["allocatable"]["aliyun/erdma"] = "400"
    pod = _pod(8)
    pod["spec"]["containers"][0]["resources"]["limits"]["aliyun/erdma"] = "1"
    tags = [{"key": "k8s.io/cluster-autoscaler/node-template/resource/aliyun/erdma", "value": "400"}]
    for nodes, read, more in (([], [], 0), ([], tags, 1), ([_node("a", 0)], [], 1)):
        assert nodes_to_add([pod], nodes, expected_node(sample, nodes, read), GPU) == more


def test_tolerations_match_as_kubernetes_matches_them() -> None:
    for toleration, tolerated in (
        ({"operator": "Exists"}, True),
        ({"key": GPU, "value": "present"}, True),
        ({"key": GPU, "value": "absent"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
    ):
        assert fits(_pod(1, tolerations=[toleration]), _node("a")) is tolerated
