"""Every environment can be previewed on a machine that reaches no cloud, with dummy keys or none."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from infra.monitoring import COMPONENT as MONITORING_COMPONENT
from tests.fixtures.cloud import environment_clone, steps, steps_of, urn_kind
from tests.fixtures.nowhere import reaching_nobody
from tools.local_environment.up import MONITORING_URNS

if TYPE_CHECKING:
    from tests.fixtures.clone import Clone

PROTECTION = "athanor:infra:Protection"
KINDS = {
    "alicloud:vpc/network:Network",
    "alicloud:cs/managedKubernetes:ManagedKubernetes",
    "alicloud:cs/nodePool:NodePool",
    "kubernetes:batch.volcano.sh/v1alpha1:Job",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone that reaches no cloud and has no keys, with an empty stack of `dev`."""
    folder = tmp_path_factory.mktemp("environments")
    return environment_clone(folder / "clone", folder / "home", "dev", reaching_nobody())


@pytest.fixture(scope="module")
def with_dummy_keys(clone: Clone) -> Clone:
    keys = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "dummy", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "dummy"}
    return replace(clone, variables={**clone.variables, **keys})


def test_make_preview_of_a_stack_that_does_not_exist_leaves_nothing(clone: Clone) -> None:
    before = {file.name: file.read_bytes() for file in clone.folder.glob("Pulumi*.yaml")}

    printed = clone.make("preview", "STACK=staging")

    for kind in ("AlicloudNetwork", "cs:ManagedKubernetes", "cs:NodePool", "batch.volcano.sh/v1alpha1:Job"):
        assert kind in printed
    assert "to create" in printed
    assert "✅ athanor" in printed, "the environment's policies"
    assert {file.name: file.read_bytes() for file in clone.folder.glob("Pulumi*.yaml")} == before
    listed = json.loads(clone.run(".venv/bin/pulumi", "stack", "ls", "--json", merge=False).stdout)
    assert [stack["name"].rpartition("/")[2] for stack in listed] == ["dev"]


@pytest.fixture(scope="module")
def dev_plan(clone: Clone) -> dict[str, Any]:
    """What an update would do to an empty stack of `dev`, whose rules are all mandatory."""
    return _plan(clone, *_mandatory_policies(clone, "dev"))


def test_an_environment_is_previewed_without_keys(dev_plan: dict[str, Any]) -> None:
    planned = steps_of(dev_plan)
    assert {step.operation for step in planned} == {"create"}
    assert {step.kind for step in planned} >= KINDS


def test_an_environment_is_previewed_with_keys_that_nobody_issued(with_dummy_keys: Clone) -> None:
    with_dummy_keys.pulumi("stack", "init", "--stack", "prod")
    planned = steps(with_dummy_keys, "prod", *_mandatory_policies(with_dummy_keys, "prod"))
    assert {step.operation for step in planned} == {"create"}
    assert {step.kind for step in planned} >= KINDS


def test_the_local_environment_keeps_its_policies_too(clone: Clone) -> None:
    """Its cluster is not there, so nothing but its kubeconfig is."""
    kubeconfig = {
        "contexts": [{"name": "athanor-local", "context": {"cluster": "none", "user": "nobody"}}],
        "clusters": [{"name": "none", "cluster": {"server": reaching_nobody()["HTTP_PROXY"]}}],
        "users": [{"name": "nobody", "user": {"token": "of nobody"}}],
    }
    file = clone.home / "local" / "kubeconfig"
    file.parent.mkdir()
    file.write_text(json.dumps(kubeconfig), encoding="utf-8")
    try:
        clone.pulumi("stack", "init", "--stack", "local")
        assert {step.operation for step in steps(clone, "local", *_mandatory_policies(clone, "local"))} == {"create"}
    finally:
        shutil.rmtree(file.parent)


def _mandatory_policies(clone: Clone, stack: str) -> list[str]:
    """Return flags with which the engine refuses a stack that breaks any rule of its environment."""
    config = json.loads((clone.folder / "policies" / "environments" / f"{stack}.json").read_text(encoding="utf-8"))
    file = clone.home / "mandatory.json"
    file.write_text(json.dumps({**config, "all": "mandatory"}), encoding="utf-8")
    return ["--policy-pack", "policies", "--policy-pack-config", str(file)]


def test_without_the_monitoring_all_else_is_created_as_with_it(clone: Clone, dev_plan: dict[str, Any]) -> None:
    """`make up` shows a prediction first: the update that adds the monitoring must find nothing to change."""
    everything = _created(dev_plan)
    # What depends on everything, the monitoring too, is left out with it; no local environment has that.
    first = _created(_plan(clone, f"--exclude={MONITORING_URNS}", f"--exclude=**{PROTECTION}**"))

    [protection] = (urn for urn in everything if PROTECTION in urn)
    del everything[protection]
    of_monitoring = {urn for urn in everything if MONITORING_COMPONENT in urn}
    assert {urn_kind(urn) for urn in of_monitoring} >= {
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:monitoring.coreos.com/v1:PodMonitor",
    }
    assert first == {urn: inputs for urn, inputs in everything.items() if urn not in of_monitoring}
    assert {urn_kind(urn) for urn in first} >= KINDS


def _plan(clone: Clone, *words: str) -> dict[str, Any]:
    return json.loads(clone.pulumi("preview", "--json", "--stack", "dev", *words, merge=False))


def _created(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what a preview would create, less the secrets' random ciphers: inputs by URN."""
    return {step["urn"]: step["newState"].get("inputs") for step in plan["steps"] if step["op"] == "create"}


def test_a_wrong_value_is_reported_by_the_provider_itself(with_dummy_keys: Clone) -> None:
    """The settings cannot know everything: what they let through, the real provider's own checks refuse."""
    file = with_dummy_keys.folder / "infra" / "alicloud" / "ack_cluster.py"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace("chosen.new_proxy_mode", '"userspace"'), encoding="utf-8")
    try:
        printed = with_dummy_keys.pulumi("preview", "--stack", "dev", check=False)
    finally:
        file.write_text(before, encoding="utf-8")

    assert "proxy_mode" in printed
    assert "userspace" in printed


def test_an_update_without_credentials_says_how_to_give_them(clone: Clone) -> None:
    printed = clone.up("--stack", "dev", check=False)

    assert "ALIBABA_CLOUD_ACCESS_KEY_ID" in printed
    assert "Traceback" not in printed
