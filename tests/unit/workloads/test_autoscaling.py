"""The number of pods follows the load: an autoscaler decides it, and nobody else."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.pod_network_modes import HostNetwork
from tests.tables import each_row
from tests.unit.workloads.serving import POOL, serve
from workloads.autoscaling import Autoscaling, CpuUtilisation, LatencyP99, PodsMetric, QueueDepth
from workloads.inference import TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.triton import Triton

ON_GPUS = {"runtime": Triton(), "resources": Resources(gpus=1)}


def _autoscaler(**asked: object):
    [autoscaler] = serve(**asked).of_kind("HorizontalPodAutoscaler")
    return autoscaler.inputs


def test_cpu_utilisation_decides_by_default():
    autoscaler = _autoscaler(autoscaling=Autoscaling(minimum=2, maximum=6, scale_down_seconds=60))
    assert autoscaler["apiVersion"] == "autoscaling/v2"
    assert autoscaler["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "digits"},
        "minReplicas": 2,
        "maxReplicas": 6,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
    }


@each_row("gpus", [False, True])
def test_the_queue_decides_on_cpus_and_on_gpus(gpus):
    on_gpus = ON_GPUS if gpus else {}
    autoscaler = _autoscaler(autoscaling=Autoscaling(maximum=4, targets=[QueueDepth(requests=8)]), **on_gpus)
    metric = {"name": "nv_inference_pending_request_count"}
    target = {"type": "AverageValue", "averageValue": "8"}
    assert autoscaler["spec"]["metrics"] == [{"type": "Pods", "pods": {"metric": metric, "target": target}}]


def test_the_latency_is_that_of_all_pods_behind_the_service():
    autoscaler = _autoscaler(autoscaling=Autoscaling(maximum=4, targets=[LatencyP99(milliseconds=50)]))
    [metric] = autoscaler["spec"]["metrics"]
    assert metric == {
        "type": "Object",
        "object": {
            "metric": {"name": "athanor_request_p99_milliseconds"},
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "digits"},
            "target": {"type": "Value", "value": "50"},
        },
    }


def test_of_several_targets_each_is_held():
    targets = [CpuUtilisation(percent=60), QueueDepth(), PodsMetric(name="waiting", average="500m")]
    autoscaler = _autoscaler(autoscaling=Autoscaling(maximum=4, targets=targets))
    assert [metric["type"] for metric in autoscaler["spec"]["metrics"]] == ["Resource", "Pods", "Pods"]


def test_it_scales_the_deployment_that_is_declared():
    recording = serve(autoscaling=Autoscaling(maximum=3))
    [deployment] = recording.of_kind("Deployment")
    [autoscaler] = recording.of_kind("HorizontalPodAutoscaler")
    named = autoscaler.inputs["spec"]["scaleTargetRef"]
    assert named == {key: deployment.inputs[key] for key in ("apiVersion", "kind")} | {"name": "digits"}
    assert deployment.inputs["metadata"]["name"] == "digits"


def test_no_update_undoes_what_the_autoscaler_did():
    [deployment] = serve(autoscaling=Autoscaling(minimum=2, maximum=3)).of_kind("Deployment")
    assert "replicas" not in deployment.inputs["spec"]
    [fixed] = serve().of_kind("Deployment")
    assert fixed.inputs["spec"]["replicas"] == 1


@each_row(
    ("asked", "budgets"),
    [
        ({}, 0),
        ({"replicas": 0}, 0),
        ({"replicas": 2}, 1),
        ({"autoscaling": Autoscaling(minimum=1, maximum=1)}, 0),
        ({"autoscaling": Autoscaling(minimum=1, maximum=2)}, 1),
        ({"autoscaling": Autoscaling(minimum=2, maximum=2)}, 1),
    ],
)
def test_a_budget_wherever_two_pods_can_run(asked, budgets):
    assert len(serve(**asked).of_kind("PodDisruptionBudget")) == budgets


@each_row(
    ("build", "words"),
    [
        (lambda: Autoscaling(minimum=-1, maximum=2), ("autoscaling.minimum = -1", "0 to 1000")),
        (lambda: Autoscaling(maximum=1001), ("autoscaling.maximum = 1001", "1 to 1000")),
        (lambda: Autoscaling(minimum=5, maximum=4), ("autoscaling.maximum = 4", "the minimum, 5", "raise it")),
        (lambda: Autoscaling(maximum=2, scale_down_seconds=3601), ("scale_down_seconds = 3601", "0 to 3600")),
        (lambda: Autoscaling(maximum=2, targets=[]), ("autoscaling.targets = []", "add one")),
        (
            lambda: Autoscaling(maximum=2, targets=[QueueDepth(requests=1), CpuUtilisation(), QueueDepth(requests=2)]),
            ("QueueDepth(requests=1)", "is there twice"),
        ),
        (lambda: QueueDepth(requests=0), ("autoscaling.target.requests = 0", "1 to 10000")),
        (lambda: LatencyP99(milliseconds=0), ("autoscaling.target.milliseconds = 0", "1 to 10000")),
        (lambda: LatencyP99(milliseconds=10_001), ("autoscaling.target.milliseconds = 10001", "1 to 10000")),
        (lambda: CpuUtilisation(percent=0), ("autoscaling.target.percent = 0", "1 to 100")),
        (lambda: CpuUtilisation(percent=101), ("autoscaling.target.percent = 101", "1 to 100")),
        (lambda: PodsMetric(name="queue length", average="1"), ("autoscaling.target.name = 'queue length'", "adapter")),
        (lambda: PodsMetric(name="queue", average="4 requests"), ("target.average = '4 requests'", "500m")),
        (lambda: PodsMetric(name="queue", average="0"), ("target.average = '0'", "above 0")),
        (
            lambda: TorchScriptServiceArgs(model="digits", replicas=2, autoscaling=Autoscaling(maximum=4)),
            ("replicas = 2", "the autoscaler decides that, from 1 to 4", "omit replicas"),
        ),
        (
            lambda: TorchScriptServiceArgs(model="digits", autoscaling=Autoscaling(maximum=4), **ON_GPUS),
            ("autoscaling.targets = CpuUtilisation(percent=70)", "CPUs stay idle", "QueueDepth(requests=4)"),
        ),
        (
            lambda: TorchScriptServiceArgs(
                model="digits", autoscaling=Autoscaling(maximum=4, targets=[LatencyP99(milliseconds=50)]), **ON_GPUS
            ),
            ("LatencyP99(milliseconds=50)", "no quantile", "QueueDepth(requests=4)"),
        ),
    ],
)
def test_what_cannot_scale_is_refused(build, words):
    with pytest.raises(RefusalError) as caught:
        build()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_pool_must_have_room_for_the_highest_load():
    asked = {"pool": POOL, "network": HostNetwork(), "autoscaling": Autoscaling(maximum=3)}
    with pytest.raises(
        RefusalError, match="pods = 3: pool 'ebmgn8v-48xlarge' has at most 2 nodes, each of which holds 1 of"
    ):
        serve(preview=True, **asked)
    serve(preview=True, **{**asked, "autoscaling": Autoscaling(maximum=2)})


@each_row("target", [CpuUtilisation(), QueueDepth(), LatencyP99(milliseconds=50)])
def test_a_target_is_refused_where_nothing_serves_its_metric(target):
    autoscaling = Autoscaling(maximum=2, targets=[target])
    with pytest.raises(RefusalError, match="nothing on the platform serves that metric") as refusal:
        autoscaling.check_offered(PlatformOffers(autoscaling=()))
    assert "set monitoring.autoscaling.enabled to true" in str(refusal.value)
    autoscaling.check_offered(PlatformOffers(autoscaling=("cpu", "queue_depth", "latency")))


def test_a_platform_of_an_earlier_release_and_other_metrics_are_not_judged():
    Autoscaling(maximum=2, targets=[QueueDepth()]).check_offered(PlatformOffers())
    other = PodsMetric(name="waiting", average="1")
    Autoscaling(maximum=2, targets=[other]).check_offered(PlatformOffers(autoscaling=()))


def test_a_service_is_refused_before_anything_of_it_is_declared():
    with pytest.raises(RefusalError, match="nothing on the platform serves that metric"):
        serve(autoscaling=Autoscaling(maximum=2), offered=())
