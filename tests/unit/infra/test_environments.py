"""Rules that hold for every committed environment on Alibaba Cloud, as the whole program declares it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from infra.alicloud.provider import PLACEHOLDER
from infra.registry import images_of
from infra.settings.parse import parse_settings
from tests.fixtures.recorded_stack import DUMMY_CREDENTIALS, OWN_KEY, UNWATCHED
from tests.pod_security import pod_specs, violations
from tests.recording_engine import KUBERNETES_PROVIDER, Registration, Secret, Unknown, scalars
from tools.stacks.engine import stack_config

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
    return [resource for resource in recording.resources.values() if resource.type.startswith("alicloud:")]


def test_a_preview_declares_what_an_update_declares(record_stack, stack, environment):
    planned = record_stack(stack_config(stack), preview=True, stack=stack)
    assert set(planned.resources) == set(environment.resources)
    for urn, resource in environment.resources.items():
        assert set(planned.resources[urn].inputs) == set(resource.inputs), urn


def test_a_preview_asks_the_cloud_nothing(record_stack, stack):
    planned = record_stack(stack_config(stack), preview=True, stack=stack)
    assert (planned.invokes, planned.reads) == ([], [])


ASKED_FOR = {
    f"alicloud:cs/{name}:{name}" for name in ("getClusterCredential", "getKubernetesVersion", "getKubernetesAddons")
}


def test_an_update_asks_for_nothing_but_the_clusters_credentials_and_versions(environment):
    assert {invoke.token for invoke in environment.invokes} <= ASKED_FOR


def test_no_image_is_pulled_from_anywhere_but_the_mirror(stack, environment):
    registry = parse_settings(stack_config(stack)).images.registry
    images = {image for resource in environment.objects() for image in images_of(resource.inputs)}
    assert len(images) >= 3, "Volcano's two and the trainer's"
    assert {image for image in images if not image.startswith(f"{registry}/")} == set()


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
        (resource.urn, value)
        for resource in in_cloud(environment)
        for key, value in resource.inputs.items()
        if key in NAMES
    ]
    assert len(named) > 8
    assert [urn for urn, value in named if not value.startswith(f"athanor-{stack}-")] == []


def test_secrets_are_the_kubeconfig_alone(environment):
    secrets = [
        (resource.type, path)
        for resource in environment.resources.values()
        for path, value in scalars(resource.inputs)
        if isinstance(value, Secret)
    ]
    assert secrets == [(KUBERNETES_PROVIDER, "kubeconfig")]


def test_no_credential_is_an_input_or_an_output(environment):
    text = json.dumps(environment.exports, default=str)
    for resource in environment.resources.values():
        text += "".join(str(value) for _, value in scalars(resource.inputs) if not isinstance(value, Secret))
    for credential in (*DUMMY_CREDENTIALS.values(), OWN_KEY, PLACEHOLDER):
        assert credential not in text


def test_objects_know_their_cluster_by_its_id(environment):
    """Else new credentials would replace every object of the cluster."""
    [provider] = environment.of_type(KUBERNETES_PROVIDER)
    [cluster] = environment.of_type(CLUSTER)
    assert provider.inputs["clusterIdentifier"] == f"{cluster.name}-id"


def test_an_edited_pool_changes_that_pool_and_what_derives_from_its_size(record_stack, prod):
    config = stack_config("prod")
    config["alicloud"]["node_pools"][1]["maximum"] += 1
    edited = record_stack(config, stack="prod")
    changed = {
        resource.name
        for urn, resource in prod.resources.items()
        if resource.custom and edited.resources[urn].inputs != resource.inputs
    }
    assert changed - {"queue-training", "queue-research"} == {
        config["alicloud"]["node_pools"][1]["name"],
        "workload-quota",
        "platform-contract",
    }
    assert set(edited.resources) == set(prod.resources)


def test_every_pool_of_gpus_can_be_turned_off_over_night(record_stack, stack):
    """As docs/alicloud.md advises, with nothing else changed: what is placed there waits."""
    config = stack_config(stack)
    for pool in config["alicloud"]["node_pools"]:
        if pool["role"] == "gpu":
            pool.update(minimum=0, maximum=0)
    job = record_stack({**config, **UNWATCHED}, stack=stack).one("digits-training", "Job")
    assert job.inputs["spec"]["minAvailable"] == 2


def test_only_what_is_protected_says_so(environment, stack):
    protected = {resource.name for resource in environment.resources.values() if resource.protect}
    if stack == "prod":
        assert {"vpc", "cluster", "nas", "data", "output", "data-volume", "output-volume", "protection"} <= protected
    else:
        assert protected == set()


def test_what_refuses_first_needs_everything_else(environment):
    """`destroy` comes to it first, and leaves alone what it needs: that must be all of it."""
    protection = environment.one("protection")
    assert protection.depends_on == {resource.urn for resource in environment.resources.values() if resource.custom}
    parents = {resource.parent for resource in environment.resources.values()}
    childless = {
        resource.name
        for resource in environment.resources.values()
        if not resource.custom and resource.urn not in parents
    }
    assert childless == {"protection"}, "nothing can depend on a component without children"


def test_pods_wait_for_nodes_and_nodes_outlive_them(environment):
    pools = environment.of_type(NODE_POOL)
    assert pools
    for name, kind in (("volcano-scheduler", "Deployment"), ("digits-training", "Job"), ("digits", "Deployment")):
        ancestors = environment.ancestors(environment.one(name, kind))
        assert {pool.urn for pool in pools} <= ancestors, name


def test_nodes_wait_for_their_egress(environment):
    for pool in environment.of_type(NODE_POOL):
        ancestors = environment.ancestors(pool)
        for entry in environment.of_type("alicloud:vpc/snatEntry:SnatEntry"):
            assert entry.urn in ancestors


def test_a_file_system_waits_until_the_network_accepts_its_zone(environment):
    """Another one replaces it, with its files, also where the network refuses the zones in the same update."""
    [vpc] = environment.of_type("alicloud:vpc/network:Network")
    [file_system] = environment.of_type("alicloud:nas/fileSystem:FileSystem")
    assert vpc.urn in environment.ancestors(file_system)


def test_rdma_nodes_wait_for_terways_filter_and_the_controller(prod):
    [train] = [pool for pool in prod.of_type(NODE_POOL) if pool.name == "train"]
    controller = prod.one("ack-erdma-controller")
    config = prod.one("terway-config")
    assert controller.urn in prod.ancestors(train)
    # The provider waits ten minutes for the controller, whose pods need a node.
    [system] = [pool for pool in prod.of_type(NODE_POOL) if pool.name == "system"]
    assert system.urn in prod.ancestors(controller)
    assert config.urn in prod.ancestors(controller)


def test_every_pod_is_admitted_at_restricted(environment):
    problems_by_pod: dict[str, Any] = {
        f"{owner.kind} {owner.name}": violations(pod)
        for owner in environment.objects()
        if owner.kind != "CustomResourceDefinition"
        if owner.inputs["metadata"].get("namespace") not in READ_THEIR_NODE
        for pod in pod_specs(owner.inputs)
    }
    assert problems_by_pod
    assert {name: problems for name, problems in problems_by_pod.items() if problems} == {}


def test_every_environment_has_a_quota_that_lets_as_much_wait_as_run(environment):
    quota = environment.one("workload-quota", "ResourceQuota").inputs
    assert quota["metadata"]["namespace"] == "athanor"
    assert {"requests.cpu", "requests.memory", "requests.nvidia.com/gpu"} <= set(quota["spec"]["hard"])


def test_nothing_of_an_environment_is_left_unknown_in_an_update(environment):
    unknown = [
        (resource.urn, path)
        for resource in environment.resources.values()
        for path, value in scalars(resource.inputs)
        if isinstance(value, Unknown)
    ]
    assert unknown == []


OF_A_CLUSTER = (NODE_POOL, ADDON)


def _names_in_the_account(recording: Recording) -> set[str]:
    """Return the names that must be unique in an account: those in a cluster are unique there."""
    return {
        value
        for resource in recording.resources.values()
        if resource.type.startswith("alicloud:") and resource.type not in OF_A_CLUSTER
        for key, value in resource.inputs.items()
        if key.lower().endswith("name") and isinstance(value, str)
    }


def test_a_second_environment_with_the_same_settings_has_names_of_its_own(record_stack):
    """In one account: `pulumi stack init`, a copy of the settings file, `pulumi up`."""
    config = stack_config("dev")
    mount = {"name": "datasets", "bucket": "team-datasets"}
    config["storage"] = {**config.get("storage", {}), "oss": [mount]}
    first, second = (_names_in_the_account(record_stack(config, stack=stack)) for stack in ("dev", "second"))
    assert {"athanor-dev-vpc", "athanor-dev-cluster"} <= first
    assert {name.replace("-dev-", "-second-") for name in first} == second
    assert first & second == set()
