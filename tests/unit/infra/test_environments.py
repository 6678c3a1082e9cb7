"""Rules that hold for every committed environment on Alibaba Cloud, as the whole program declares it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from infra.alicloud.provider import PLACEHOLDER
from infra.registry import images_of
from infra.settings.parse import parse_settings
from tests.fixtures.recorded_stack import DUMMY_CREDENTIALS, OWN_KEY
from tests.pod_security import pod_specs, violations
from tests.recording_engine import KUBERNETES_PROVIDER, Registration, Secret, Unknown, scalars
from tools.engine import stack_config

if TYPE_CHECKING:
    from tests.recording_engine import Recording

ENVIRONMENTS = ("dev", "staging", "prod")
NODE_POOL = "alicloud:cs/nodePool:NodePool"
ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
READ_THEIR_NODE = ("gpu-system", "monitoring-nodes")
"""Namespaces of pods that mount folders of their node: at `privileged`, with rules of their own elsewhere."""
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"


@pytest.fixture(params=ENVIRONMENTS)
def stack(request) -> str:
    return request.param


@pytest.fixture
def environment(stack, record_stack) -> Recording:
    return record_stack(stack_config(stack), stack=stack)


@pytest.fixture
def prod(record_stack) -> Recording:
    return record_stack(stack_config("prod"), stack="prod")


def in_cloud(recording: Recording) -> list[Registration]:
    return [found for found in recording.resources.values() if found.type.startswith("alicloud:")]


def test_a_preview_declares_what_an_update_declares(record_stack, stack, environment):
    planned = record_stack(stack_config(stack), preview=True, stack=stack)
    assert set(planned.resources) == set(environment.resources)
    for urn, resource in environment.resources.items():
        assert set(planned.resources[urn].inputs) == set(resource.inputs), urn


def test_a_preview_asks_the_cloud_nothing(record_stack, stack):
    assert record_stack(stack_config(stack), preview=True, stack=stack).invokes == []


def test_an_update_asks_for_nothing_but_the_clusters_credentials(environment):
    assert {invoke.token for invoke in environment.invokes} <= {"alicloud:cs/getClusterCredential:getClusterCredential"}


def test_no_image_is_pulled_from_anywhere_but_the_mirror(stack, environment):
    registry = parse_settings(stack_config(stack)).images.registry
    found = {image for resource in environment.objects() for image in images_of(resource.inputs)}
    assert len(found) >= 3, "Volcano's two and the trainer's"
    assert {image for image in found if not image.startswith(f"{registry}/")} == set()


def test_every_add_on_is_pinned(environment):
    addons = environment.of_type(ADDON)
    assert addons
    [cluster] = environment.of_type(CLUSTER)
    at_birth = [addon for addon in cluster.inputs["addons"] if not addon.get("disabled")]
    versions = {
        **{addon.inputs["name"]: addon.inputs["version"] for addon in addons},
        **{addon["name"]: addon["version"] for addon in at_birth},
    }
    for name, version in versions.items():
        assert re.fullmatch(r"v?\d+\.\d+.*", version), f"{name} {version!r}"


NAMES = {"vpcName", "vswitchName", "natGatewayName", "addressName", "securityGroupName", "snatEntryName", "roleName",
         "policyName", "accessGroupName", "deploymentSetName"}  # fmt: skip


def test_names_in_the_cloud_tell_the_stack(environment, stack):
    """The engine's own random names would be found by nobody in the console."""
    named = [
        (found.urn, value) for found in in_cloud(environment) for key, value in found.inputs.items() if key in NAMES
    ]
    assert len(named) > 8
    assert [urn for urn, value in named if not value.startswith(f"athanor-{stack}-")] == []


def test_secrets_are_the_kubeconfig_alone(environment):
    secrets = [
        (found.type, path)
        for found in environment.resources.values()
        for path, value in scalars(found.inputs)
        if isinstance(value, Secret)
    ]
    assert secrets == [(KUBERNETES_PROVIDER, "kubeconfig")]


def test_no_credential_is_an_input_or_an_output(environment):
    text = json.dumps(environment.exports, default=str)
    for found in environment.resources.values():
        text += "".join(str(value) for _, value in scalars(found.inputs) if not isinstance(value, Secret))
    for credential in (*DUMMY_CREDENTIALS.values(), OWN_KEY, PLACEHOLDER):
        assert credential not in text


def test_objects_know_their_cluster_by_its_id(environment):
    """Else new credentials would replace every object of the cluster."""
    [provider] = environment.of_type(KUBERNETES_PROVIDER)
    [cluster] = environment.of_type(CLUSTER)
    assert provider.inputs["clusterIdentifier"] == f"{cluster.name}-id"


def test_an_edited_pool_changes_that_pool_and_what_derives_from_its_size(record_stack, environment, stack):
    config = stack_config(stack)
    config["alicloud"]["node_pools"][1]["maximum"] += 1
    edited = record_stack(config, stack=stack)
    changed = {
        found.name
        for urn, found in environment.resources.items()
        if found.custom and edited.resources[urn].inputs != found.inputs
    }
    assert changed - {"queue-training", "queue-research"} == {
        config["alicloud"]["node_pools"][1]["name"],
        "workload-quota",
    }
    assert set(edited.resources) == set(environment.resources)


def test_only_what_is_protected_says_so(environment, stack):
    protected = {found.name for found in environment.resources.values() if found.protect}
    if stack == "prod":
        assert {"vpc", "cluster", "nas", "data", "output", "data-volume", "output-volume"} <= protected
    else:
        assert protected == set()


def test_pods_wait_for_nodes_and_nodes_outlive_them(environment):
    pools = environment.of_type(NODE_POOL)
    assert pools
    for name, kind in (("volcano-scheduler", "Deployment"), ("digits-training", "Job"), ("digits", "Deployment")):
        ancestors = environment.ancestors(environment.one(name, kind))
        assert {pool.urn for pool in pools} <= ancestors, name


def test_nodes_wait_for_their_way_out(environment):
    for pool in environment.of_type(NODE_POOL):
        ancestors = environment.ancestors(pool)
        for entry in environment.of_type("alicloud:vpc/snatEntry:SnatEntry"):
            assert entry.urn in ancestors


def test_rdma_nodes_wait_for_terways_filter_and_the_controller(prod):
    [train] = [pool for pool in prod.of_type(NODE_POOL) if pool.name == "train"]
    controller = prod.one("ack-erdma-controller")
    config = prod.one("terway-config")
    assert controller.urn in prod.ancestors(train)
    assert config.urn in prod.ancestors(controller)


def test_every_pod_is_admitted_at_restricted(environment):
    found: dict[str, Any] = {
        f"{owner.kind} {owner.name}": violations(pod)
        for owner in environment.objects()
        if owner.kind != "CustomResourceDefinition"
        if owner.inputs["metadata"].get("namespace") not in READ_THEIR_NODE
        for pod in pod_specs(owner.inputs)
    }
    assert found
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_every_environment_has_a_quota_that_lets_as_much_wait_as_run(environment):
    quota = environment.one("workload-quota", "ResourceQuota").inputs
    assert quota["metadata"]["namespace"] == "athanor"
    assert {"requests.cpu", "requests.memory", "requests.nvidia.com/gpu"} <= set(quota["spec"]["hard"])


def test_nothing_of_an_environment_is_left_unknown_in_an_update(environment):
    unknown = [
        (found.urn, path)
        for found in environment.resources.values()
        for path, value in scalars(found.inputs)
        if isinstance(value, Unknown)
    ]
    assert unknown == []
