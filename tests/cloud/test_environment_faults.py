"""The worst days of an environment on Alibaba Cloud: no machines in stock, a busy cloud, updates killed half-way.

The real engine and the real provider against a pretended account; a local cluster behind it takes the platform's
objects. One environment is made, through all of this, once: whatever happens, in the end everything is there once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.settings.parse import parse_settings
from tests.fixtures.clone import Clone, kill_session
from tests.fixtures.cloud import edit, environment_clone, leave_out_monitoring, steps
from tools.api_double import faults
from tools.api_double.cs import machines
from tools.api_double.faults import Fault
from tools.engine import stack_config
from tools.recovery.credentials import open_cloud
from tools.recovery.lookup import LOOKUPS, candidates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.api_double.double import ApiDouble

STACK = "dev"
CLUSTER = "faulty"
GPU_TYPES = ("ecs.gn7i-c8g1.2xlarge", "ecs.gn7i-c16g1.4xlarge")
WAIT_SECONDS = 600
ONCE = {
    "vpc": 1,
    "vswitch": 2,
    "security_group": 1,
    "nat_gateway": 1,
    "eip": 1,
    "snat_entry": 2,
    "cluster": 1,
    "node_pool": 2,
    "file_system": 1,
    "mount_target": 1,
}
"""What `dev` consists of, as far as it can be made twice."""


@pytest.fixture(scope="module")
def dev(account: ApiDouble, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone with an empty stack of `dev`: without its job, and with a GPU node from the beginning."""
    folder = tmp_path_factory.mktemp("dev")
    clone = environment_clone(folder / "clone", folder / "home", STACK, account.environment())
    leave_out_monitoring(clone, STACK)
    clone.pulumi("config", "set", "--path", "athanor:digits.enabled", "false", "--stack", STACK)
    edit(clone, STACK, lambda settings: settings["node_pools"][1].update(minimum=1))
    return clone


@pytest.fixture(autouse=True)
def no_fault_left(account: ApiDouble) -> Iterator[None]:
    yield
    account.faults.clear()
    machines.restock(account.account)
    assert account.mistakes() == []
    assert account.unknown_operations() == []


def up(clone: Clone, *, check: bool = True) -> str:
    return clone.pulumi("up", "--yes", "--skip-preview", "--stack", STACK, check=check)


def kill_while(clone: Clone, account: ApiDouble, operation: str) -> None:
    """Start an update and kill the engine when a call has been carried out whose answer it does not have yet."""
    before = len(account.log.calls())
    account.faults.add(Fault(operation=operation, effect="hold"))
    command = (".venv/bin/pulumi", "up", "--yes", "--skip-preview", "--stack", STACK, "--non-interactive")
    with clone.started(*command) as process:
        account.log.wait_for(
            lambda call: call.operation == operation and call.status == 200,
            since=before,
            timeout_seconds=WAIT_SECONDS,
        )
        kill_session(process)
    account.faults.clear()


def deployment(clone: Clone) -> dict[str, Any]:
    return json.loads(clone.pulumi("stack", "export", "--stack", STACK, merge=False))["deployment"]


def ids(clone: Clone, kind: str) -> set[str]:
    return {entry["id"] for entry in deployment(clone)["resources"] if entry["type"] == kind}


def counted(account: ApiDouble) -> dict[str, int]:
    return {kind: len(found) for kind, found in account.inventory().items() if kind in ONCE}


def busy(account: ApiDouble) -> set[str]:
    """Return the operations that the cloud was too busy for, at least once."""
    codes = {"Throttling.User", "ServiceUnavailable", "InternalError"}
    return {call.operation for call in account.log.calls() if call.code in codes}


def test_a_kill_while_the_vpc_is_made(account: ApiDouble, dev: Clone) -> None:
    kill_while(dev, account, "CreateVpc")
    undecided = {one["resource"]["type"] for one in deployment(dev)["pending_operations"]}
    assert "alicloud:vpc/network:Network" in undecided

    printed = dev.make("recover", f"STACK={STACK}")

    [vpc] = account.inventory()["vpc"]
    assert f"adopted as {vpc}" in printed
    assert ids(dev, "alicloud:vpc/network:Network") == {vpc}
    assert "pending_operations" not in deployment(dev)


def test_a_busy_cloud_is_asked_again_and_a_kill_while_the_cluster_is_made(account: ApiDouble, dev: Clone) -> None:
    account.faults.add(
        faults.throttling("CreateSnatEntry"),
        faults.throttling("CreateVSwitch", times=2),
        faults.server_error("CreateNatGateway"),
        faults.server_error("CreateSecurityGroup", status=500),
    )
    kill_while(dev, account, "CreateCluster")
    assert busy(account) == {"CreateSnatEntry", "CreateVSwitch", "CreateNatGateway", "CreateSecurityGroup"}

    printed = dev.make("recover", f"STACK={STACK}")

    [cluster] = account.inventory()["cluster"]
    assert f"adopted as {cluster}" in printed
    assert ids(dev, "alicloud:cs/managedKubernetes:ManagedKubernetes") == {cluster}


def test_a_kill_while_node_pools_are_made(account: ApiDouble, dev: Clone) -> None:
    kill_while(dev, account, "CreateClusterNodePool")

    dev.make("recover", f"STACK={STACK}")

    pools = account.inventory()["node_pool"]
    assert {one.rpartition(":")[2] for one in ids(dev, "alicloud:cs/nodePool:NodePool")} == set(pools)


def test_a_pool_out_of_stock_fails_with_its_name_and_the_next_up_completes(account: ApiDouble, dev: Clone) -> None:
    machines.sell_out(account.account, *GPU_TYPES)

    printed = up(dev, check=False)

    about_the_pool = printed.partition("Diagnostics:")[2].partition("\n  alicloud:cs:NodePool (a10):\n")[2]
    said = about_the_pool.partition("\n  alicloud:")[0].partition("\n  pulumi:")[0]
    assert "OperationDenied.NoStock" in said
    assert "out of stock in the specified zone" in said
    machines.restock(account.account)
    up(dev)
    assert counted(account) == ONCE


def test_every_resource_could_have_been_found_under_the_id_that_the_provider_gave_it(
    account: ApiDouble, dev: Clone
) -> None:
    settings = parse_settings(stack_config(STACK, dev.folder)).alicloud
    assert settings
    cloud = open_cloud(settings, account.environment())
    made = [entry for entry in deployment(dev)["resources"] if entry["type"] in LOOKUPS]
    found = {entry["urn"]: [match.id for match in candidates(cloud, entry["type"], entry["inputs"])] for entry in made}
    assert found == {entry["urn"]: [entry["id"]] for entry in made}
    assert len({entry["type"] for entry in made}) > 12


def test_nothing_is_doubled_or_lost_after_all(account: ApiDouble, dev: Clone) -> None:
    assert steps(dev, STACK) == []
    assert "update" not in json.loads(
        dev.pulumi("refresh", "--preview-only", "--json", "--stack", STACK, merge=False)
    ).get("changeSummary", {})

    dev.pulumi("destroy", "--yes", "--skip-preview", "--stack", STACK)

    assert account.inventory() == {}
