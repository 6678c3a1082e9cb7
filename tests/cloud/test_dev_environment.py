"""`dev` from an empty account to a GPU job on its nodes and back: real engine, real providers, a pretended account.

A real local cluster stands behind the account's ACK cluster, so the platform's own pods run; the nodes of the pools are
simulated. The tests build on each other in their order: one environment is created on the worst of days (a busy cloud,
a quota that is used up, a token that expires, no machines in stock, updates killed half-way), looked at, edited and
destroyed. Whatever happens, all is there once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from athanor.account.credentials import open_cloud
from athanor.account.lookup import LOOKUPS, candidates
from infra.settings.parse import parse_settings
from tests.api_double import faults
from tests.api_double.cs import machines
from tests.api_double.faults import ALWAYS, Fault
from tests.fixtures.clone import REPOSITORY, Clone
from tests.fixtures.cloud import (
    Step,
    as_previewer,
    as_temporary_user,
    deployment,
    edit,
    environment_clone,
    ids,
    kill_while,
    leave_out_monitoring,
    steps,
    up,
)
from tests.waiting import wait_until
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api_double.double import ApiDouble
    from tools.local_cluster import LocalCluster

STACK = "dev"
ACK_CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
POOL = "alicloud:cs/nodePool:NodePool"
QUOTA = "kubernetes:core/v1:ResourceQuota"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
QUEUE = "kubernetes:scheduling.volcano.sh/v1beta1:Queue"
HYPER_NODE = "kubernetes:topology.volcano.sh/v1alpha1:HyperNode"
VOLUME_CLASSES = {"athanor-shared", "athanor-disk"}
ZONE, OTHER_ZONE = "cn-hangzhou-i", "cn-hangzhou-j"
GPU_TYPES = ("ecs.gn7i-c8g1.2xlarge", "ecs.gn7i-c16g1.4xlarge")
ONCE = {
    "vpc": 1,
    "vswitch": 4,
    "security_group": 1,
    "nat_gateway": 1,
    "eip": 1,
    "snat_entry": 4,
    "cluster": 1,
    "node_pool": 2,
    "file_system": 1,
    "mount_target": 1,
}
"""The resources of `dev` that could be created twice by mistake."""


@pytest.fixture(scope="module")
def dev(account: ApiDouble, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone with an empty stack of `dev`: without its job, with a GPU node from the beginning, and with two zones."""
    folder = tmp_path_factory.mktemp("dev")
    clone = environment_clone(folder / "clone", folder / "home", STACK, account.environment())
    leave_out_monitoring(clone, STACK)
    clone.configure(STACK, digits={"enabled": False})
    edit(clone, STACK, lambda settings: pool_named(settings, "a10").update(minimum=1))
    edit(clone, STACK, lambda settings: move(settings, [ZONE, OTHER_ZONE], pools_to=ZONE))
    return clone


@pytest.fixture
def settings_file(dev: Clone) -> Iterator[None]:
    """The stack's settings are after the test what they were before it."""
    file = dev.folder / f"Pulumi.{STACK}.yaml"
    before = file.read_bytes()
    yield
    file.write_bytes(before)


@pytest.fixture(autouse=True)
def no_fault_left(account: ApiDouble) -> Iterator[None]:
    yield
    account.faults.clear()
    account.account.standing_still.clear()
    machines.restock(account.account)
    assert account.mistakes() == []
    assert account.unknown_operations() == []
    assert account.gate.refused() == []


def pool_named(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return next(pool for pool in settings["node_pools"] if pool["name"] == name)


def move(settings: dict[str, Any], zones: list[str], *, pools_to: str) -> None:
    """Put the environment into zones, and its pools into one of them."""
    settings["zones"] = zones
    for pool in settings["node_pools"]:
        pool["zones"] = [pools_to]


def in_cluster(cluster: LocalCluster, clone: Clone, *words: str) -> list[dict[str, Any]]:
    return json.loads(clone.kubectl(f"--kubeconfig={cluster.kubeconfig}", "get", *words, "-o", "json"))["items"]


def pool_nodes(cluster: LocalCluster, clone: Clone, pool: str) -> list[dict[str, Any]]:
    """Return a pool's own machines; a real node that carries the system pool's labels, so that pods run, is none."""
    labels = f"athanor.dev/pool={pool},alibabacloud.com/nodepool-id"
    listed = in_cluster(cluster, clone, "nodes", "-l", labels)
    return [node for node in listed if "kwok.x-k8s.io/node" in node["metadata"].get("annotations", {})]


def replaced(planned: list[Step]) -> set[str]:
    return {step.name for step in planned if "replace" in step.operation}


def reclaim_policies(cluster: LocalCluster, clone: Clone) -> set[str]:
    listed = in_cluster(cluster, clone, "storageclasses")
    return {item["reclaimPolicy"] for item in listed if item["metadata"]["name"] in VOLUME_CLASSES}


def urns(clone: Clone) -> set[str]:
    return {entry["urn"] for entry in deployment(clone, STACK)["resources"]}


def inventory(account: ApiDouble) -> dict[str, list[str]]:
    return {kind: objects for kind, objects in account.inventory().items() if kind in ONCE}


def counted(account: ApiDouble) -> dict[str, int]:
    return {kind: len(objects) for kind, objects in inventory(account).items()}


def busy(account: ApiDouble) -> set[str]:
    """Return the operations that the cloud was too busy for, at least once."""
    codes = {"Throttling.User", "ServiceUnavailable", "InternalError"}
    return {call.operation for call in account.log.calls() if call.code in codes}


def test_a_quota_that_is_used_up_leaves_a_state_to_continue_from(account: ApiDouble, dev: Clone) -> None:
    account.faults.add(faults.quota_exceeded("AllocateEipAddress", "Eip", times=ALWAYS))

    printed = up(dev, STACK, check=False)

    assert "QuotaExceeded.Eip" in printed
    assert "There were no pending operations" in dev.make("recover", f"STACK={STACK}")
    made = counted(account)
    assert made["vpc"] == 1
    assert all(made[kind] <= ONCE[kind] for kind in made)
    assert "eip" not in made


def test_a_token_that_expires_half_way_leaves_a_state_to_continue_from(account: ApiDouble, dev: Clone) -> None:
    account.faults.add(Fault(operation="CreateNatGateway", effect="expire"))

    printed = up(as_temporary_user(dev, account), STACK, check=False)

    assert "InvalidSecurityToken.Expired" in printed
    assert "There were no pending operations" in dev.make("recover", f"STACK={STACK}")
    made = counted(account)
    assert all(made[kind] <= ONCE[kind] for kind in made)
    assert {"vpc", "nat_gateway", "eip"} <= made.keys()
    assert "snat_entry" not in made


def test_a_busy_cloud_is_asked_again_and_a_kill_while_the_cluster_is_made(account: ApiDouble, dev: Clone) -> None:
    every_third = faults.server_error("*", call=3, every=3, times=ALWAYS)
    account.faults.add(every_third)
    kill_while(dev, STACK, account, "CreateCluster")
    # Asked for each of the four vswitches, so that at least one call of each met it.
    assert {"CreateSnatEntry", "DescribeSnatTableEntries"} <= busy(account)
    undecided = {one["resource"]["type"] for one in deployment(dev, STACK)["pending_operations"]}
    assert ACK_CLUSTER in undecided

    account.faults.add(every_third)
    printed = dev.make("recover", f"STACK={STACK}")

    [made] = account.inventory()["cluster"]
    assert f"adopted as {made}" in printed
    assert ids(dev, STACK, ACK_CLUSTER) == {made}
    assert "pending_operations" not in deployment(dev, STACK)


def test_a_pool_that_never_gets_ready_is_adopted_as_it_is(account: ApiDouble, dev: Clone) -> None:
    account.account.standing_still.add("node_pool")
    # Else the other pool might be created before the kill, and the next test waits for that to fail.
    other = {"nodepool_info.name": "a10"}
    account.faults.add(Fault(operation="CreateClusterNodePool", where=other, effect="drop", times=ALWAYS))
    kill_while(dev, STACK, account, "CreateClusterNodePool")

    said = " ".join(dev.make("recover", f"STACK={STACK}", "MINUTES=0").split())

    [pool] = account.inventory()["node_pool"]
    assert f"{pool}, still 'scaling'" in said
    assert {one.rpartition(":")[2] for one in ids(dev, STACK, POOL)} == {pool}


def test_a_pool_out_of_stock_fails_with_its_name_and_the_next_up_completes(account: ApiDouble, dev: Clone) -> None:
    machines.sell_out(account.account, *GPU_TYPES)

    printed = up(dev, STACK, check=False)

    about_the_pool = printed.partition("Diagnostics:")[2].partition("\n  alicloud:cs:NodePool (a10):\n")[2]
    said = about_the_pool.partition("\n  alicloud:")[0].partition("\n  pulumi:")[0]
    assert "OperationDenied.NoStock" in said
    assert "out of stock in the specified zone" in said
    machines.restock(account.account)
    account.faults.add(faults.throttling("*", call=3, every=3, times=ALWAYS))
    up(dev, STACK)
    assert counted(account) == ONCE


def test_every_resource_could_have_been_found_under_the_id_that_the_provider_gave_it(
    account: ApiDouble, dev: Clone
) -> None:
    settings = parse_settings(stack_config(STACK, dev.folder)).alicloud
    assert settings
    cloud = open_cloud(settings, account.environment())
    made = [entry for entry in deployment(dev, STACK)["resources"] if entry["type"] in LOOKUPS]
    ids_by_urn = {
        entry["urn"]: [match.id for match in candidates(cloud, entry["type"], entry["inputs"])] for entry in made
    }
    assert ids_by_urn == {entry["urn"]: [entry["id"]] for entry in made}
    assert len({entry["type"] for entry in made}) > 12


def test_a_larger_pool_a_job_and_protection_replace_nothing_but_classes_of_volumes(
    account: ApiDouble, cluster: LocalCluster, dev: Clone
) -> None:
    def change(settings: dict[str, Any]) -> None:
        pool_named(settings, "system").update(minimum=3, maximum=3)
        pool_named(settings, "a10").pop("minimum")
        settings["protected"] = True

    edit(dev, STACK, change)
    dev.configure(STACK, digits=stack_config(STACK)["digits"])
    planned = steps(dev, STACK)
    up(dev, STACK)

    assert replaced(planned) == VOLUME_CLASSES
    assert reclaim_policies(cluster, dev) == {"Retain"}
    wait_until(lambda: len(pool_nodes(cluster, dev, "system")) == 3, "the third system node")
    assert counted(account) == ONCE
    outputs = json.loads(dev.pulumi("stack", "output", "--json", "--stack", STACK, merge=False))
    assert [outputs["alicloud_vpc_id"]] == account.inventory()["vpc"]


def test_pools_are_nodes_with_labels_taints_and_gpus(cluster: LocalCluster, dev: Clone) -> None:
    # one node to begin with: the pending job makes the pool grow
    nodes = wait_until(
        lambda: present if len(present := pool_nodes(cluster, dev, "a10")) >= 2 else None, "two GPU nodes"
    )
    for node in nodes:
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ecs.gn7i-c8g1.2xlarge"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
        assert "nvidia.com/gpu" in {taint["key"] for taint in node["spec"]["taints"]}


def test_the_gpu_job_runs_on_gpu_nodes_alone(cluster: LocalCluster, dev: Clone) -> None:
    def placed() -> list[str]:
        pods = in_cluster(cluster, dev, "pods", "-n", "athanor", "-l", "athanor.dev/job")
        return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]

    nodes = wait_until(lambda: names if len(names := placed()) == 2 else None, "both workers to be placed")
    gpu = {node["metadata"]["name"] for node in pool_nodes(cluster, dev, "a10")}
    assert set(nodes) <= gpu


def test_who_may_only_read_finds_no_drift_and_a_second_up_changes_nothing(account: ApiDouble, dev: Clone) -> None:
    as_previewer(dev, account).pulumi("refresh", "--preview-only", "--expect-no-changes", "--stack", STACK)
    up(dev, STACK, "--expect-no-changes")


def test_the_state_holds_no_credentials(cluster: LocalCluster, dev: Clone) -> None:
    text = json.dumps(deployment(dev, STACK))
    kubeconfig = cluster.kubeconfig.read_text(encoding="utf-8")
    for line in kubeconfig.splitlines():
        key, _, value = line.strip().partition(": ")
        if key in {"client-key-data", "client-certificate-data"}:
            assert value not in text
    assert dev.variables["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] not in text


@pytest.mark.usefixtures("settings_file")
def test_edits_show_exactly_their_steps_to_who_may_only_read(account: ApiDouble, dev: Clone) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings.setdefault("kubernetes", {}).update(version="1.36.2-aliyun.1")
        pool_named(settings, "a10").update(maximum=6)
        cpu = {"name": "cpu", "role": "cpu", "instance_types": ["ecs.c7.xlarge"], "maximum": 1, "zones": [ZONE]}
        settings["node_pools"].append(cpu)

    edit(dev, STACK, change)

    planned = steps(as_previewer(dev, account), STACK)
    assert {step for step in planned if step.kind.startswith(("alicloud:", "kubernetes:"))} == {
        Step("update", ACK_CLUSTER, "cluster"),
        Step("update", POOL, "a10"),
        Step("create", POOL, "cpu"),
        # what derives from the pools: the share of the queue, the most that may be asked for, the topology
        Step("update", CONFIG_MAP, "platform-contract"),
        Step("update", QUEUE, "queue-training"),
        Step("update", QUOTA, "workload-quota"),
        Step("create", HYPER_NODE, "hyper-node-pool.cpu.cn-hangzhou-i"),
        Step("update", HYPER_NODE, "hyper-node-zone.cn-hangzhou-i"),
    }


@pytest.mark.usefixtures("settings_file")
def test_a_create_only_field_is_refused_in_the_preview(dev: Clone) -> None:
    edit(dev, STACK, lambda settings: settings.setdefault("kubernetes", {}).update(public_api_server=True))

    printed = dev.pulumi("preview", "--stack", STACK, check=False)

    assert "alicloud.kubernetes.public_api_server" in printed
    assert "Fix:" in printed


@pytest.mark.usefixtures("settings_file")
@pytest.mark.parametrize("left", [ZONE, OTHER_ZONE], ids=["the-last", "the-first"])
def test_a_zone_that_is_removed_is_refused_and_takes_nothing_along(account: ApiDouble, dev: Clone, left: str) -> None:
    before = inventory(account)
    edit(dev, STACK, lambda settings: move(settings, [left], pools_to=left))

    preview = dev.pulumi("preview", "--stack", STACK, check=False)
    up(dev, STACK, check=False)

    assert "alicloud.zones" in preview
    assert "Fix: restore these zones" in preview
    assert inventory(account) == before


def test_with_its_zones_back_nothing_has_changed(dev: Clone) -> None:
    up(dev, STACK, "--expect-no-changes")


def allowed_actions() -> set[str]:
    policies = [
        json.loads((REPOSITORY / "docs" / f"{name}.json").read_text()) for name in ("ram-policy", "ram-policy-oss")
    ]
    return {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


@pytest.mark.parametrize(
    "words", [[], ["--target", f"**{POOL}::a10", "--target-dependents"]], ids=["all", "a pool and what runs there"]
)
def test_a_protected_environment_refuses_before_anything_is_deleted(
    account: ApiDouble, dev: Clone, words: list[str]
) -> None:
    before, state = account.inventory(), urns(dev)

    printed = dev.pulumi("destroy", "--yes", "--skip-preview", "--stack", STACK, *words, check=False)

    assert "Protection::protection" in printed
    assert "cannot be deleted" in printed
    assert account.inventory() == before
    assert urns(dev) == state


def test_protection_is_switched_off_and_the_gpus_with_it(cluster: LocalCluster, dev: Clone) -> None:
    def change(settings: dict[str, Any]) -> None:
        settings["protected"] = False
        pool_named(settings, "a10").update(maximum=0)

    edit(dev, STACK, change)
    planned = steps(dev, STACK)
    up(dev, STACK)

    assert replaced(planned) == VOLUME_CLASSES
    assert reclaim_policies(cluster, dev) == {"Delete"}


def leftovers(clone: Clone) -> tuple[int, str]:
    """Return the exit status of `athanor leftovers` in a clone, and what it printed."""
    done = clone.run("make", "--silent", "leftovers", f"STACK={STACK}", check=False)
    return done.returncode, done.stdout


def test_leftovers_are_everything_that_is_billed_and_what_contains_it(account: ApiDouble, dev: Clone) -> None:
    status, printed = leftovers(dev)

    assert status != 0, printed
    assert "athanor/dev" in printed
    present = account.inventory()
    for kind in ("cluster", "file_system", "nat_gateway", "eip", "access_group", "security_group", "vswitch", "vpc"):
        assert [identifier for identifier in present[kind] if identifier.partition(":")[0] not in printed] == [], kind


def test_destroy_leaves_an_empty_account_and_no_node(account: ApiDouble, cluster: LocalCluster, dev: Clone) -> None:
    dev.pulumi("destroy", "--yes", "--skip-preview", "--stack", STACK)

    assert account.inventory() == {}
    status, printed = leftovers(dev)
    assert (status, printed.partition("\n")[0]) == (0, "Nothing of athanor/dev exists in cn-hangzhou.")
    assert [n for n in in_cluster(cluster, dev, "nodes") if "athanor.dev/pool" in n["metadata"]["labels"]] == []
    namespaces = {item["metadata"]["name"] for item in in_cluster(cluster, dev, "namespaces")}
    assert namespaces <= {"default", "kube-system", "kube-public", "kube-node-lease"}
    # Whose key it is may be asked with any that has not expired.
    asked = {f"{call.product}:{call.operation}" for call in account.log.calls()} - {"sts:GetCallerIdentity"}
    assert asked <= allowed_actions()
