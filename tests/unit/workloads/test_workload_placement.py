"""Jobs and services check their placement against the platform, wherever its offers come from, and name its price."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pulumi
import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.pools import pool_offers
from infra.settings.stack import Settings
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.triton import Triton

if TYPE_CHECKING:
    from infra.platform import Platform

PROGRAM = ("-m", "trainer.train")
GPUS = Resources(gpus=8)
SIMULATED = Settings.model_validate({"cluster": {"simulated_nodes": [{"instance_type": "ecs.ebmgn8v.48xlarge"}]}})
POOLS = pool_offers(SIMULATED)


def _platform(offers: object) -> Platform:
    return replace(plain_platform(), namespace="team", queue="research", offers=offers)


def _job(offers: object, **asked: object):
    args = PyTorchJobArgs(program=PROGRAM, workers=1, **asked)
    return record(lambda: PyTorchJob("train", _platform(offers), args), preview=True)


def _service(offers: object, **asked: object):
    args = TorchScriptServiceArgs(model="resnet", **asked)
    return record(lambda: TorchScriptService("serve", _platform(offers), args), preview=True)


@each_row(("declare", "later"), product([_job, _service], [False, True]))
def test_a_workload_that_does_not_fit_is_refused_in_the_preview(declare, later):
    def offers() -> object:
        known = PlatformOffers(pools=POOLS)
        return pulumi.Output.from_input(known.to_dict()).apply(PlatformOffers.from_dict) if later else known

    args = {"pool": "ebmgn8v-48xlarge", "resources": Resources(gpus=3)}
    with pytest.raises(RefusalError, match="use one of 1, 2, 4, 8"):
        record(lambda: _declare(declare, offers(), args), preview=True)
    recording = record(lambda: _declare(declare, offers(), {**args, "resources": GPUS}), preview=True)
    [workload] = [resource for resource in recording.objects() if resource.kind in ("Job", "Deployment")]
    assert "ebmgn8v-48xlarge" in str(workload.inputs["spec"])


def _declare(declare: object, offers: object, args: dict) -> None:
    if declare is _job:
        PyTorchJob("train", _platform(offers), PyTorchJobArgs(program=PROGRAM, workers=1, **args))
    else:
        TorchScriptService("serve", _platform(offers), TorchScriptServiceArgs(model="resnet", runtime=Triton(), **args))


@each_row(
    ("asked", "words"),
    [
        ({"resources": Resources(gpus=GpuMemory(gib=8))}, ("only the ACK scheduler can assign a card", "whole GPUs")),
        ({"resources": Resources(gpus=SharedGpu()), "workers": 2}, ("NCCL refuses two ranks", "one worker")),
        (
            {"resources": Resources(gpus=MigInstances(profile="1g.10gb")), "workers": 2},
            ("NCCL refuses two ranks", "one worker"),
        ),
        ({"resources": Resources(gpus=SharedGpu()), "processes_per_worker": 2}, ("does not divide the 1 GPUs",)),
    ],
)
def test_gpus_that_cannot_train_are_refused(asked, words):
    with pytest.raises(RefusalError) as caught:
        PyTorchJobArgs(**{"program": PROGRAM, "workers": 1, **asked})
    assert all(word in str(caught.value) for word in words)


def test_one_process_may_train_on_a_share():
    for gpus in (SharedGpu(), MigInstances(profile="1g.10gb")):
        PyTorchJobArgs(program=PROGRAM, workers=1, resources=Resources(gpus=gpus))


NODE_POOLS = [{"name": "system", "role": "system", "minimum": 3, "eni": "exclusive"}, {"name": "cpu", "role": "cpu"}]
ENVIRONMENT = {
    "region": "cn-hangzhou",
    "zones": ["cn-hangzhou-i"],
    "node_pools": [{**each, "instance_types": ["ecs.g7.8xlarge"], "maximum": 3} for each in NODE_POOLS],
}
ACK = PlatformOffers(
    pools=pool_offers(Settings.model_validate({"alicloud": ENVIRONMENT})),
    pod_networkings=("storage",),
    pod_security="privileged",
)
NETWORKS = (SharedEni(), TrunkEni(pod_networking="storage"), ExclusiveEni(), HostNetwork())


@each_row(("declare", "network"), product([_job, _service], NETWORKS))
def test_a_network_without_policies_says_so(declare, network, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, _resource: messages.append(message))
    declare(ACK, network=network)
    warned = isinstance(network, ExclusiveEni | HostNetwork)
    assert [type(network).__name__ in message for message in messages] == ([True] if warned else [])


@each_row(
    ("declare", "network", "pool", "warned"),
    [
        *((each, TrunkEni(pod_networking="storage"), "cpu", True) for each in (_job, _service)),
        (_job, SharedEni(), "cpu", False),
        (_job, TrunkEni(pod_networking="storage"), None, False),
    ],
)
def test_a_pool_whose_autoscaler_would_never_add_a_node_is_named(declare, network, pool, warned, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, _resource: messages.append(message))
    declare(ACK, network=network, pool=pool)
    assert ["'cpu' may be empty (minimum 0)" in message for message in messages] == ([True] if warned else [])
    some = dataclasses.replace(ACK, pools=tuple(dataclasses.replace(each, min_nodes=1) for each in ACK.pools))
    del messages[:]
    declare(some, network=network, pool=pool)
    assert messages == []


def test_a_service_on_the_hosts_network_frees_its_port_before_the_next_pod_needs_it():
    recording = _service(ACK, network=HostNetwork(port_offset=10), replicas=2)
    [deployment] = recording.of_kind("Deployment")
    spec = deployment.inputs["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    [container] = spec["template"]["spec"]["containers"]
    assert {"--http_port=8010", "--metrics_port=8012"} <= set(container["command"])
    assert [port["containerPort"] for port in container["ports"]] == [8010, 8012]
    [policy] = recording.of_kind("NetworkPolicy")
    assert [[port["port"] for port in rule["ports"]] for rule in policy.inputs["spec"]["ingress"]] == [[8010], [8012]]
    # Callers see no difference: the Service's own ports stay, and lead to the pods' by name.
    [service] = recording.of_kind("Service")
    assert [(port["port"], port["targetPort"]) for port in service.inputs["spec"]["ports"]] == [
        (8000, "http"),
        (8002, "metrics"),
    ]
