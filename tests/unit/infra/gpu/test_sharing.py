"""Every kind of sharing becomes the right node labels or plugin configuration, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.errors import RefusalError
from infra.gpu.sharing import advertised, device_plugin_config, mig_instances, mig_resource, node_labels, shares_per_gpu
from infra.instance_types import instance_type
from infra.settings.gpu import Cgpu, ClusterGpuSettings, GpuSettings, Mig, Mps, TimeSlicing
from tests.tables import each_row

SCHEDULE = "ack.node.gpu.schedule"


def test_whole_gpus_are_acks_default():
    assert node_labels(None) == {SCHEDULE: "default"}


@each_row(
    ("isolation", "label"), [("memory", "cgpu"), ("memory_and_cores", "core_mem"), ("mps", "mps"), ("none", "share")]
)
def test_acks_sharing_is_a_pair_of_labels(isolation, label):
    for placement in ("binpack", "spread"):
        labels = node_labels(Cgpu(isolation=isolation, placement=placement))
        assert labels == {SCHEDULE: label, "ack.node.gpu.placement": placement}


@each_row(
    ("sharing", "fix"),
    [
        (TimeSlicing(replicas=4), "{mode: cgpu, isolation: memory}"),
        (Mps(replicas=4), "{mode: cgpu, isolation: mps}"),
        (Mig(profile="1g.10gb"), "{mode: cgpu, isolation: memory}"),
    ],
)
def test_what_ack_does_not_manage_is_refused_there(sharing, fix):
    with pytest.raises(RefusalError) as caught:
        node_labels(sharing)
    assert caught.value.value == sharing.mode
    assert "ACK" in caught.value.limit
    assert fix in caught.value.fix


def test_whole_gpus_need_no_sharing_of_the_plugin():
    assert device_plugin_config(None) == {"version": "v1", "flags": {"migStrategy": "none"}}


@given(st.integers(2, 48), st.sampled_from([(TimeSlicing, "timeSlicing"), (Mps, "mps")]))
def test_replicas_get_a_name_of_their_own_and_are_asked_for_one_by_one(replicas, kind):
    model, key = kind
    config = device_plugin_config(model(replicas=replicas))
    assert config["flags"] == {"migStrategy": "none"}
    [(name, shared)] = config["sharing"].items()
    assert name == key
    assert shared["renameByDefault"] is True
    assert shared["failRequestsGreaterThanOne"] is True
    assert shared["resources"] == [{"name": "nvidia.com/gpu", "replicas": replicas}]


def test_mig_instances_are_resources_by_profile():
    assert device_plugin_config(Mig(profile="3g.40gb")) == {"version": "v1", "flags": {"migStrategy": "mixed"}}
    assert mig_resource("3g.40gb") == "nvidia.com/mig-3g.40gb"


def test_acks_sharing_is_refused_elsewhere():
    with pytest.raises(RefusalError, match="cGPU is part of ACK"):
        device_plugin_config(Cgpu())


@each_row(
    "sharing",
    [
        {"mode": "time_slicing", "replicas": 1},
        {"mode": "mps", "replicas": 49},
        {"mode": "mps", "replicas": "4"},
        {"mode": "mig", "profile": "8g.10gb"},
        {"mode": "mig", "profile": "1g.10gb\n"},
        {"mode": "cgpu", "replicas": 2},
        {"mode": "vgpu"},
        {"replicas": 2},
    ],
)
def test_sharing_that_cannot_be_is_not_a_setting(sharing):
    with pytest.raises(ValidationError):
        GpuSettings.model_validate({"sharing": sharing})


A100 = instance_type("ecs.ebmgn7e.32xlarge")
A10 = instance_type("ecs.gn7i-c16g1.4xlarge")
CPU = instance_type("ecs.g7.2xlarge")


@each_row(
    ("sharing", "resources"),
    [
        (None, {"nvidia.com/gpu": "8"}),
        (TimeSlicing(replicas=4), {"nvidia.com/gpu.shared": "32"}),
        (Mps(replicas=2), {"nvidia.com/gpu.shared": "16"}),
        (Mig(profile="1g.10gb"), {"nvidia.com/mig-1g.10gb": "56"}),
        (Mig(profile="7g.80gb"), {"nvidia.com/mig-7g.80gb": "8"}),
    ],
)
def test_a_node_announces_its_gpus_in_shares(sharing, resources):
    assert advertised(sharing, A100) == resources
    assert advertised(sharing, CPU) == {}


@each_row(("facts", "fix"), [(A100, "1g.10gb"), (A10, "use time_slicing or mps")])
def test_a_profile_that_the_gpus_do_not_have_is_refused(facts, fix):
    with pytest.raises(RefusalError, match="have no such MIG profile") as caught:
        mig_instances(facts, "1g.11gb")
    assert fix in caught.value.fix


def test_shares_that_pods_choose_themselves_are_not_counted():
    assert shares_per_gpu(Cgpu(), A100) == 0
    assert shares_per_gpu(None, None) == 1


@each_row(
    ("settings", "words"),
    [
        ({"sharing": {"mode": "mps", "replicas": 2}}, "set gpu.device_plugin to true"),
        ({"device_plugin": True, "sharing": {"mode": "cgpu"}}, "'cgpu'"),
    ],
)
def test_a_cluster_of_ones_own_shares_through_nvidias_plugin_alone(settings, words):
    with pytest.raises(ValidationError, match=words):
        ClusterGpuSettings.model_validate(settings)
