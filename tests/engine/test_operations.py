"""What an operator does to a running environment, as docs/operate.md says it: the real engine, an account pretended.

One environment is created; each test has a copy of it, with its project, its state and its account.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_double.cs.kubernetes_side import KubernetesSide
from tests.api_double.double import ApiDouble
from tests.api_double.signatures import Credential
from tests.fixtures.engine_project import STACK, EngineProject, Step
from tests.unit.api_double.api_client import client_of
from tests.unit.api_double.cs.service import KUBECONFIG
from tools.process import CommandError, run
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROGRAM = """
import json, os
from pathlib import Path
import pulumi
import pulumi_alicloud as alicloud
from infra.alicloud.environment import create_environment
from infra.alicloud.file_system import FileSystemPlace
from infra.alicloud.names import resource_name, tags
from infra.alicloud.oss import ServiceAccountRole, ServiceAccountRoleArgs
from infra.alicloud.storage import NasStorage, NasStorageArgs
from infra.settings.parse import parse_settings
from infra.settings.storage import StandardNas

settings = parse_settings(json.loads(Path("settings.json").read_text()))
environment = create_environment(settings.alicloud, settings.images, settings.monitoring)

class Placement(pulumi.ComponentResource):
    def __init__(self, name, opts):
        super().__init__(f"project:index:{os.environ.get('CLASS', 'Placement')}", name, None, opts)
        alicloud.ecs.EcsDeploymentSet(
            "set", deployment_set_name="close", strategy="LowLatency", opts=pulumi.ResourceOptions(parent=self)
        )

in_cloud = pulumi.ResourceOptions(provider=environment.provider)
place = FileSystemPlace(settings=settings.alicloud, network=environment.network)
NasStorage("files", NasStorageArgs(place=place, file_system=StandardNas()), in_cloud)
role = ServiceAccountRoleArgs(
    role_name=resource_name("oss"),
    oidc_issuer_url=environment.cluster.oidc_issuer_url,
    oidc_provider_arn=environment.cluster.oidc_provider_arn,
    namespace="ack-csi-fuse",
    service_account="csi-fuse-ossfs",
    statements=[{"Effect": "Allow", "Action": ["oss:ListObjects"], "Resource": ["acs:oss:*:*:bucket"]}],
    tags=tags(settings.alicloud),
)
ServiceAccountRole("oss", role, in_cloud)

former = [pulumi.Alias(type_=os.environ["FORMER"])] if "FORMER" in os.environ else []
Placement("placement", pulumi.ResourceOptions(provider=environment.provider, aliases=former))
"""
PARTS = """
import json
from pathlib import Path
import pulumi
from infra.alicloud.file_system import FileSystemPlace
from infra.alicloud.network import AlicloudNetwork, AlicloudNetworkArgs
from infra.alicloud.provider import alicloud_provider
from infra.alicloud.storage import NasStorage, NasStorageArgs
from infra.settings.parse import parse_settings
from infra.settings.storage import StandardNas

settings = parse_settings(json.loads(Path("settings.json").read_text())).alicloud
in_cloud = pulumi.ResourceOptions(provider=alicloud_provider(settings))
network = AlicloudNetwork("network", AlicloudNetworkArgs(settings=settings), in_cloud)
place = FileSystemPlace(settings=settings, network=network)
NasStorage("files", NasStorageArgs(place=place, file_system=StandardNas()), in_cloud)
"""
"""Kinds that another environment could claim: ranges, and those known by names, which all come from one place."""
SETTINGS: dict[str, Any] = {
    "alicloud": {
        "region": "cn-hangzhou",
        "zones": ["cn-hangzhou-i"],
        "node_pools": [
            {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2},
            {"name": "a10", "role": "gpu", "instance_types": ["ecs.gn7i-c8g1.2xlarge"], "maximum": 4},
        ],
    },
    "monitoring": {"kind": "none"},
}
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
POOL = "alicloud:cs/nodePool:NodePool"
ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
VERSIONS_ON_OFFER = "pulumi:index:Stash"
NOT_ADOPTED = {VERSIONS_ON_OFFER, "alicloud:cs/autoscalingConfig:AutoscalingConfig"}
"""What has nothing to adopt: to create it changes nothing in the account."""
KUBERNETES_PROVIDER = "pulumi:providers:kubernetes"
NEW_PASSPHRASE = "another one"
KNOWN_BY_NAME = {
    "alicloud:nas/accessGroup:AccessGroup",
    "alicloud:nas/accessRule:AccessRule",
    "alicloud:ram/role:Role",
    "alicloud:ram/policy:Policy",
    "alicloud:ram/rolePolicyAttachment:RolePolicyAttachment",
}
"""What has no other id than its name, or hangs on such a thing."""
PASSING = {"task"}
"""Each change of a cluster, a pool or an add-on leaves a finished one in the account."""


class Environment:
    """A stack in a pretended account."""

    def __init__(self, project: EngineProject, double: ApiDouble) -> None:
        self.project = project
        self.double = double
        self.state_file = project.folder / "state" / ".pulumi" / "stacks" / "athanor" / f"{STACK}.json"

    def want(self, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
        """Write the settings, changed by a function."""
        settings = json.loads(json.dumps(SETTINGS))
        change(settings["alicloud"])
        (self.project.folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def cut_off_the_state(self) -> None:
        """Leave the first half of the state file, as a machine that failed in the middle of a write."""
        whole = self.state_file.read_bytes()
        self.state_file.write_bytes(whole[: len(whole) // 2])


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineProject, Path]:
    """A project after `pulumi up`, and the folder that its account is kept in."""
    folder = tmp_path_factory.mktemp("created")
    ensure(["pulumi-resource-kubernetes"])
    with account_in(folder / "account") as double:
        variables = double.environment()
        project = EngineProject.create(folder / "project", PROGRAM, "alicloud", variables, name="athanor")
        Environment(project, double).want()
        project.up()
    return project, folder / "account"


@pytest.fixture
def environment(created: tuple[EngineProject, Path], tmp_path: Path) -> Iterator[Environment]:
    """An environment of the test's own."""
    project, account = created
    shutil.copytree(account, tmp_path / "account")
    with account_in(tmp_path / "account") as double:
        copy = project.copied_to(tmp_path / "project").with_variables(**double.environment())
        yield Environment(copy, double)
        assert double.mistakes() == []
        assert double.unknown_operations() == []


def account_in(folder: Path) -> ApiDouble:
    return ApiDouble(folder, settling_reads=0, kubeconfig=KUBECONFIG)


def upgrade_kubernetes(alicloud: dict[str, Any]) -> None:
    alicloud["kubernetes"] = {"version": "1.36"}


def upgrade_the_driver(alicloud: dict[str, Any]) -> None:
    alicloud["node_pools"][1]["gpu"] = {"driver_version": "570.195.03"}


def upgrade_an_addon(alicloud: dict[str, Any]) -> None:
    alicloud["kubernetes"] = {"addon_versions": {"ack-node-problem-detector": "1.2.99"}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            upgrade_kubernetes,
            {
                Step("update", CLUSTER, "cluster"),
                Step("create", VERSIONS_ON_OFFER, "kubernetes-1.36"),
                Step("delete", VERSIONS_ON_OFFER, "kubernetes-versions"),
            },
        ),
        (upgrade_the_driver, {Step("update", POOL, "a10")}),
        (upgrade_an_addon, {Step("update", ADDON, "ack-node-problem-detector")}),
    ],
    ids=["kubernetes", "driver", "add-on"],
)
def test_an_upgrade_touches_one_thing_and_replaces_nothing(
    environment: Environment, change: Callable[[dict[str, Any]], object], expected: set[Step]
) -> None:
    environment.want(change)

    assert environment.project.steps() == expected


def test_a_component_s_type_is_renamed_with_an_alias_alone(environment: Environment) -> None:
    renamed = environment.project.with_variables(CLASS="Nearness")
    kind = "alicloud:ecs/ecsDeploymentSet:EcsDeploymentSet"
    assert {step for step in renamed.steps() if step.kind == kind} == {
        Step("create", kind, "set"),
        Step("delete", kind, "set"),
    }
    renamed.with_variables(FORMER="project:index:Placement").preview("--expect-no-changes")


def test_a_half_written_state_is_restored_from_a_backup(environment: Environment, tmp_path: Path) -> None:
    backup = tmp_path / "backup.json"
    backup.write_text(environment.project.run("stack", "export"), encoding="utf-8")
    environment.cut_off_the_state()

    with pytest.raises(CommandError, match="failed to load checkpoint"):
        environment.project.preview()
    environment.project.run("stack", "import", "--file", str(backup))

    environment.project.preview("--expect-no-changes")


def test_a_half_written_state_is_restored_from_what_the_engine_kept(environment: Environment) -> None:
    folder = environment.project.folder / "state" / ".pulumi" / "backups" / "athanor" / STACK
    latest = max(folder.glob("*.json"), key=lambda file: file.name)
    environment.cut_off_the_state()

    shutil.copyfile(latest, environment.state_file)

    environment.project.preview("--expect-no-changes")


def test_the_state_before_the_last_step_is_kept_next_to_the_state(environment: Environment) -> None:
    environment.want(upgrade_the_driver)
    environment.project.up()
    environment.cut_off_the_state()

    shutil.copyfile(environment.state_file.with_suffix(".json.bak"), environment.state_file)

    environment.project.preview("--expect-no-changes")


def test_a_stack_moves_to_another_backend_with_its_state(environment: Environment, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(environment.project.run("stack", "export"), encoding="utf-8")
    (tmp_path / "backend").mkdir()
    moved = environment.project.with_variables(PULUMI_BACKEND_URL=(tmp_path / "backend").as_uri())

    moved.run("stack", "init", STACK)
    moved.run("stack", "import", "--file", str(state))

    moved.preview("--expect-no-changes")


def test_the_passphrase_is_changed_and_the_old_one_opens_nothing(environment: Environment) -> None:
    old = environment.project
    command = [old.engine, "stack", "change-secrets-provider", "passphrase", "--non-interactive"]
    run(command, cwd=old.folder, env=old.variables, stdin=f"{NEW_PASSPHRASE}\n{NEW_PASSPHRASE}\n")

    with pytest.raises(CommandError, match="incorrect passphrase"):
        old.preview()
    old.with_variables(PULUMI_CONFIG_PASSPHRASE=NEW_PASSPHRASE).preview("--expect-no-changes")


def test_another_access_key_changes_nothing(environment: Environment) -> None:
    new = Credential(secret="another secret", security_token="a token")
    with environment.double.account.lock:
        environment.double.account.add_session("STS.new", new)
    rotated = environment.project.with_variables(
        ALIBABA_CLOUD_ACCESS_KEY_ID="STS.new",
        ALIBABA_CLOUD_ACCESS_KEY_SECRET=new.secret,
        ALIBABA_CLOUD_SECURITY_TOKEN=new.security_token,
    )
    rotated.preview("--refresh", "--expect-no-changes")


def test_a_kubeconfig_that_ack_renewed_updates_the_provider_alone(environment: Environment) -> None:
    side = environment.double.account.kubernetes
    assert isinstance(side, KubernetesSide)
    side.kubeconfig = KUBECONFIG.replace('client-key-data: ""', 'client-key-data: "cmVuZXdlZA=="')

    assert environment.project.steps() == {Step("update", KUBERNETES_PROVIDER, "kubernetes")}
    environment.project.up()
    environment.project.preview("--expect-no-changes")


def test_another_name_of_project_and_stack_replaces_only_what_is_known_by_its_name(environment: Environment) -> None:
    project = environment.project
    before = environment.double.inventory()
    project_file = project.folder / "Pulumi.yaml"
    project.run("stack", "rename", "organization/furnace/renamed")
    project_file.write_text(project_file.read_text(encoding="utf-8").replace("athanor", "furnace"), encoding="utf-8")
    renamed = project.with_variables(PULUMI_STACK="organization/furnace/renamed")

    planned = renamed.steps()

    assert {step.kind for step in planned if step.operation != "update"} == KNOWN_BY_NAME
    assert Step("update", CLUSTER, "cluster") in planned
    # The provider waits for minutes before it looks whether a cluster or a pool has its new name.
    renamed.up(*(f"--target=**athanor:infra:{component}**" for component in ("NasStorage", "ServiceAccountRole")))
    after = environment.double.inventory()
    changed = {kind for kind in before if before[kind] != after[kind]} - PASSING
    assert changed == {"access_group", "access_rule", "role", "policy", "policy_attachment"}


def test_a_second_environment_with_the_same_settings_shares_nothing_with_the_first(
    environment: Environment, tmp_path: Path
) -> None:
    first = environment.double.inventory()
    variables = environment.double.environment()
    second = EngineProject.create(tmp_path / "second", PARTS, "alicloud", variables, name="athanor", stack="second")
    Environment(second, environment.double).want()

    second.up()
    both = environment.double.inventory()
    second.run("destroy", "--yes", "--skip-preview")

    assert {kind for kind in both if len(both[kind]) == 2 * len(first[kind])} >= {"vpc", "file_system", "access_group"}
    assert all({*first[kind]} <= {*both[kind]} for kind in first)
    assert environment.double.inventory() == first


def test_zones_are_added_in_place_and_only_at_the_end(environment: Environment) -> None:
    environment.want(lambda alicloud: alicloud.update(zones=["cn-hangzhou-h", "cn-hangzhou-i"]))
    with pytest.raises(CommandError, match=r"alicloud\.zones = .*Fix: restore these zones"):
        environment.project.up()
    environment.want(lambda alicloud: alicloud.update(zones=["cn-hangzhou-i", "cn-hangzhou-h"]))
    assert {step.operation for step in environment.project.steps()} == {"create", "update"}

    printed = environment.project.up()

    assert "New pod vswitches: vsw-" in printed
    assert len(environment.double.inventory()["vswitch"]) == 4
    environment.project.preview("--refresh", "--expect-no-changes")


def test_the_network_alone_is_created_first(tmp_path: Path) -> None:
    """What `--target` leaves out has no outputs, which the program must not read."""
    with account_in(tmp_path / "account") as double:
        project = EngineProject.create(tmp_path / "new", PROGRAM, "alicloud", double.environment(), name="athanor")
        Environment(project, double).want()
        with pytest.raises(CommandError) as ended:
            project.up("--target=**AlicloudNetwork**")
        made = double.inventory()

    said = str(ended.value)
    assert "not specified in --target list" in said  # the Kubernetes provider, which the engine adds
    # The engine then interrupts the program, which Python may report from a callback of its own.
    assert [line for line in said.splitlines() if 'File "' in line and "/infra/" in line] == []
    assert (len(made["vswitch"]), len(made["snat_entry"]), made.get("cluster", [])) == (2, 2, [])


def test_a_pod_vswitch_added_by_hand_is_left_alone(environment: Environment) -> None:
    [vpc] = environment.double.inventory()["vpc"]
    by_hand = {"VpcId": vpc, "ZoneId": "cn-hangzhou-i", "CidrBlock": "10.71.0.0/20"}
    vswitch = client_of(environment.double).rpc("vpc", "CreateVSwitch", **by_hand)["VSwitchId"]

    environment.project.up("--refresh", "--expect-no-changes")

    assert vswitch in environment.double.inventory()["vswitch"]


def test_protection_is_turned_on_and_off_in_place(environment: Environment) -> None:
    environment.want(lambda alicloud: alicloud.update(protected=True))
    planned = environment.project.steps()
    assert {step.operation for step in planned} == {"update"}
    assert Step("update", CLUSTER, "cluster") in planned
    # The provider waits for minutes before it looks whether a cluster or a pool has changed.
    environment.project.up("--target=**::nat-gateway")
    environment.want()
    assert environment.project.steps() == {Step("update", "alicloud:vpc/natGateway:NatGateway", "nat-gateway")}


def test_what_exists_is_adopted_and_nothing_of_it_replaced(environment: Environment) -> None:
    project = environment.project
    before = environment.double.inventory()
    ids = {(entry["type"], entry["urn"].rpartition("::")[2]): entry.get("id") for entry in project.resources()}
    with environment.double.account.lock:
        [vpc] = environment.double.account.all("vpc").values()
        vpc["VpcName"], vpc["_tags"] = "made-by-hand", {}
    project.run("stack", "rm", STACK, "--force", "--yes")
    project.run("stack", "init", STACK)

    project.preview("--import-file", "import.json")
    file = project.folder / "import.json"
    planned = json.loads(file.read_text(encoding="utf-8"))
    planned["resources"] = [
        {**one, "id": ids[one["type"], one.get("logicalName", one["name"])]} if "id" in one else one
        for one in planned["resources"]
        if one["type"] not in {*NOT_ADOPTED, KUBERNETES_PROVIDER}
    ]
    file.write_text(json.dumps(planned), encoding="utf-8")
    words = ("--file", str(file), "--yes", "--skip-preview", "--generate-code=false", "--protect=false")
    project.run("import", *words)

    planned_steps = environment.project.steps()
    assert [step for step in planned_steps if "replace" in step.operation or "delete" in step.operation] == []
    assert Step("update", "alicloud:vpc/network:Network", "vpc") in planned_steps
    project.up()
    project.preview("--expect-no-changes")
    after = environment.double.inventory()
    assert {kind: after[kind] for kind in after.keys() - PASSING} == {
        kind: before[kind] for kind in before.keys() - PASSING
    }
