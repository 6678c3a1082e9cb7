"""The namespace's quota lets jobs wait; the LimitRange bounds nobody who asks for what he needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.errors import RefusalError
from infra.kubernetes.quantities import quantity_value
from infra.pools import pool_offers
from infra.quotas import limit_range_manifest, object_limits, quota_limits, quota_manifest
from infra.settings.scheduling import ContainerDefaults, QuotaSettings
from infra.settings.stack import Settings
from tests.fixtures.recorded_stack import UNWATCHED
from tests.pod_security import all_containers, pod_specs
from tests.tables import each_row
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from infra.offers import PoolOffer

A100 = "ecs.ebmgn7e.32xlarge"


def simulated(count: int = 2) -> tuple[PoolOffer, ...]:
    nodes = [{"instance_type": A100, "count": count}]
    return pool_offers(Settings.model_validate({"cluster": {"simulated_nodes": nodes}}))


def test_by_default_as_much_may_wait_as_can_run():
    """Kubernetes counts a pod that waits like one that runs."""
    limits = quota_limits(QuotaSettings(), simulated(), all_nodes_known=True)
    assert limits == {"requests.cpu": "512", "requests.memory": "4Ti", "requests.nvidia.com/gpu": "32"}


def test_every_pool_counts_and_of_alternative_types_the_largest():
    pools = [
        {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge", "ecs.g7.2xlarge"], "minimum": 2},
        {"name": "a10", "role": "gpu", "instance_types": ["ecs.gn7i-c8g1.2xlarge"]},
    ]
    alicloud = {
        "region": "cn-hangzhou",
        "zones": ["cn-hangzhou-i"],
        "node_pools": [{**pool, "maximum": 5} for pool in pools],
    }
    offers = pool_offers(Settings.model_validate({"alicloud": alicloud}))
    limits = quota_limits(QuotaSettings(percent=100), offers, all_nodes_known=True)
    assert limits == {"requests.cpu": "80", "requests.memory": "310Gi", "requests.nvidia.com/gpu": "5"}


@each_row(("pools", "known"), [((), True), ((), False), (simulated(), False)])
def test_where_not_all_nodes_are_known_there_is_none_by_default(pools, known):
    assert quota_limits(QuotaSettings(), pools, all_nodes_known=known) == {}


def test_a_share_of_the_known_nodes_can_be_asked_for():
    limits = quota_limits(QuotaSettings(percent=50), simulated(), all_nodes_known=False)
    assert limits["requests.nvidia.com/gpu"] == "8"


def test_a_share_of_the_unknown_is_refused():
    with pytest.raises(RefusalError, match=r"quota\.percent = 50: .*Fix: set quota\.resources"):
        quota_limits(QuotaSettings(percent=50), (), all_nodes_known=False)


def test_explicit_limits_replace_derived_ones_and_add_to_them():
    resources = {"nvidia.com/gpu": "3", "pods": "50", "count/jobs.batch": "7", "limits.memory": "1Ti"}
    limits = quota_limits(QuotaSettings(resources=resources), simulated(), all_nodes_known=True)
    assert limits["requests.nvidia.com/gpu"] == "3"
    assert limits["requests.cpu"] == "512"
    assert limits.items() >= {"pods": "50", "count/jobs.batch": "7", "limits.memory": "1Ti"}.items()
    assert quota_limits(QuotaSettings(resources={"cpu": "8"}), (), all_nodes_known=False) == {"requests.cpu": "8"}


def test_it_can_be_switched_off():
    off = QuotaSettings(enabled=False, resources={"cpu": "8"})
    assert quota_limits(off, simulated(), all_nodes_known=True) == {}


@each_row(
    ("settings", "limited"),
    [
        ({}, {"configmaps", "secrets", "services"}),
        ({"resources": {"configmaps": "9", "count/secrets": "9"}}, {"services"}),
        ({"enabled": False}, set()),
    ],
)
def test_objects_are_limited_unless_the_settings_say_their_number(settings, limited):
    assert object_limits(QuotaSettings(**settings)).keys() == limited


def test_the_quota_has_no_scope():
    """Volcano's plugin does not know scopes: it would hold every job against every quota."""
    manifest = quota_manifest("team", {"pods": "5"})
    assert manifest["metadata"]["namespace"] == "team"
    assert manifest["spec"] == {"hard": {"pods": "5"}}


def test_the_limit_range_gives_defaults_and_no_bounds():
    [limits] = limit_range_manifest("team", ContainerDefaults(cpu="1", memory="2Gi"))["spec"]["limits"]
    assert limits == {
        "type": "Container",
        "defaultRequest": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "0"},
        "default": {"memory": "2Gi", "ephemeral-storage": "64Gi"},
    }


def test_what_our_pods_may_fill_is_below_the_limit_of_their_disk(record_stack):
    """The limit counts emptyDirs; a pod beyond it is evicted, whatever its volumes allow."""
    limit = quantity_value(ContainerDefaults().ephemeral_storage)
    for resource in record_stack(stack_config("prod"), stack="prod").objects():
        if resource.inputs["metadata"].get("namespace") == "athanor":
            for pod in pod_specs(resource.inputs):
                empty = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
                disks = [quantity_value(each["sizeLimit"]) for each in empty if each.get("medium") != "Memory"]
                assert 0 < sum(disks) < limit, resource.urn


WITH_QUOTA = {"scheduling": {"quota": {"resources": {"cpu": "64", "memory": "64Gi"}}}, **UNWATCHED}


def test_the_projects_own_pods_ask_for_all_that_a_quota_counts(record_stack):
    """A pod that names no request of a counted resource is refused, unless the LimitRange fills it in."""
    recording = record_stack(WITH_QUOTA)
    quota = recording.one("workload-quota")
    counted = {name.removeprefix("requests.") for name in quota.inputs["spec"]["hard"]}
    pods = [
        pod
        for resource in recording.objects()
        if resource.inputs["metadata"].get("namespace") == "athanor"
        for pod in pod_specs(resource.inputs)
    ]
    assert pods
    for pod in pods:
        for container in all_containers(pod):
            assert counted <= set(container["resources"]["requests"])


def test_pods_come_after_quota_and_limit_range(record_stack):
    recording = record_stack(WITH_QUOTA)
    job = recording.one("digits-training", "Job")
    for name in ("workload-quota", "object-quota", "container-defaults"):
        resource = recording.one(name)
        assert resource.urn in recording.ancestors(job)
        assert recording.one("workload-namespace").urn in recording.ancestors(resource)


def test_what_a_quota_counts_comes_after_it(record_stack):
    """Kubernetes refuses it until it has counted what is there."""
    recording = record_stack(WITH_QUOTA)
    quota = recording.one("object-quota")
    for resource in recording.objects():
        counted = f"{resource.kind.lower()}s" in quota.inputs["spec"]["hard"]
        if counted and resource.inputs["metadata"].get("namespace") == "athanor":
            assert quota.urn in recording.ancestors(resource), resource.urn
