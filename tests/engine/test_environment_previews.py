"""Every environment can be previewed on a machine that reaches no cloud, with dummy keys or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clone import Clone, make_clone
from tests.fixtures.cloud import environment_clone, without_endpoints

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENTS = ("dev", "staging", "prod")
DUMMY_KEYS = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "dummy", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "dummy"}


@pytest.mark.parametrize("stack", ENVIRONMENTS)
@pytest.mark.parametrize("keys", [DUMMY_KEYS, {}], ids=["dummy-keys", "no-keys"])
def test_an_environment_is_previewed_without_a_cloud(stack: str, keys: dict[str, str], tmp_path: Path) -> None:
    clone = environment_clone(tmp_path / "clone", tmp_path / "home", stack, {**without_endpoints(), **keys})

    shown = json.loads(clone.pulumi("preview", "--json", "--stack", stack, merge=False))

    assert set(shown["changeSummary"]) == {"create"}
    kinds = {step["urn"].split("::")[2].rpartition("$")[2] for step in shown["steps"]}
    assert {
        "alicloud:vpc/network:Network",
        "alicloud:cs/managedKubernetes:ManagedKubernetes",
        "alicloud:cs/nodePool:NodePool",
        "kubernetes:batch.volcano.sh/v1alpha1:Job",
    } <= kinds
    assert not [message for message in shown.get("diagnostics", []) if message["severity"] == "error"]


def test_make_preview_of_a_stack_that_does_not_exist_leaves_nothing(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone", tmp_path / "home")
    before = {file.name: file.read_bytes() for file in clone.folder.glob("Pulumi*.yaml")}

    printed = clone.make("preview", "STACK=staging")

    assert "athanor:infra:AlicloudNetwork" in printed
    assert "to create" in printed
    assert {file.name: file.read_bytes() for file in clone.folder.glob("Pulumi*.yaml")} == before
    assert json.loads(clone.run(".venv/bin/pulumi", "stack", "ls", "--json", merge=False).stdout) == []


def test_an_update_without_credentials_says_how_to_give_them(tmp_path: Path) -> None:
    clone: Clone = environment_clone(tmp_path / "clone", tmp_path / "home", "dev", without_endpoints())

    printed = clone.pulumi("up", "--yes", "--skip-preview", "--stack", "dev", check=False)

    assert "ALIBABA_CLOUD_ACCESS_KEY_ID" in printed
    assert "Traceback" not in printed


def test_a_wrong_value_is_told_by_the_provider_itself(tmp_path: Path) -> None:
    """The settings cannot know everything: what they let through, the real provider's own checks refuse."""
    clone = environment_clone(tmp_path / "clone", tmp_path / "home", "dev", {**without_endpoints(), **DUMMY_KEYS})
    file = clone.folder / "infra" / "alicloud" / "ack_cluster.py"
    file.write_text(file.read_text(encoding="utf-8").replace("chosen.proxy_mode", '"userspace"'), encoding="utf-8")

    printed = clone.pulumi("preview", "--stack", "dev", check=False)

    assert "proxy_mode" in printed
    assert "userspace" in printed
