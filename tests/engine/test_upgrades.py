"""`dev` as earlier releases created it, and what an update with today's code would do to the cloud's resources.

The real provider decides: it alone knows which change replaces what. Objects of the cluster are in
tests/manifests/test_upgrades.py, since no cluster is here. Neither level waits for anything to be created: see
tests/fixtures/release.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_double.double import ApiDouble
from tests.fixtures.release import WITHOUT_THE_CLUSTERS_OBJECTS, Release
from tests.unit.api_double.cs.service import KUBECONFIG

if TYPE_CHECKING:
    from pathlib import Path

POOL = "alicloud:cs/nodePool:NodePool"
MAY_GO = {"e111cf0": {"AccessRule nas-allow-10.65.0.0-16"}, "7b2769b": set[str]()}
"""Resources that an update deletes, by release: nodes alone mount the file system, for their pods."""
MAY_CHANGE: dict[str, dict[str, set[str]]] = {
    "e111cf0": {
        "KubernetesAddon csi-plugin": {"version"},
        "KubernetesAddon managed-csiprovisioner": {"version"},
        "ManagedKubernetes cluster": {"maintenanceWindow", "upgradePolicy"},
        "NodePool a10": {"imageType", "labels"},
        "NodePool system": {"imageType"},
        "kubernetes kubernetes": {"kubeClientSettings"},
    },
    "7b2769b": {"kubernetes kubernetes": {"kubeClientSettings"}},
}
"""Inputs that an update changes in place, by resource.

Add to these only what an operator may find changed or gone without having asked for it, and say so in CHANGELOG.md and
in docs/operator.md, "Upgrading athanor".
"""


def as_after_a_refresh(deployment: dict[str, Any]) -> dict[str, Any]:
    """Return a state whose pools have another metadata service than new pools get: ACK may ignore what it is asked."""
    pools = [resource for resource in deployment["resources"] if resource["type"] == POOL]
    assert pools
    for properties in (pool[which] for pool in pools for which in ("inputs", "outputs")):
        properties["instanceMetadataOptions"] = {"httpTokens": "optional"}
    return deployment


@pytest.mark.parametrize("commit", MAY_CHANGE)
def test_an_update_replaces_nothing_and_changes_and_deletes_only_what_is_listed(tmp_path: Path, commit: str) -> None:
    release = Release.read(commit)
    (tmp_path / "account").mkdir()
    with ApiDouble(tmp_path / "account", settling_reads=0, kubeconfig=KUBECONFIG) as double:
        for kind, records in release.account.items():
            for identifier, record in records.items():
                double.account.add(kind, identifier, record)
        project = release.project(tmp_path / "stack", double)
        state = tmp_path / "state.json"
        deployment = as_after_a_refresh(release.deployment)
        state.write_text(json.dumps({"version": 3, "deployment": deployment}), encoding="utf-8")
        project.run("stack", "import", "--file", str(state))
        steps = json.loads(project.preview("--json", *WITHOUT_THE_CLUSTERS_OBJECTS))["steps"]
        assert double.mistakes() == []
        assert double.unknown_operations() == []

    changed: dict[str, dict[str, set[str]]] = {}
    for step in steps:
        kind, name = step["urn"].split("::")[2].rpartition("$")[2], step["urn"].rpartition("::")[2]
        # A component of ours is nothing in the account.
        if not kind.startswith("athanor:"):
            resource = f"{kind.rpartition(':')[2]} {name}"
            changed.setdefault(step["op"], {})[resource] = set(step.get("diffReasons") or ())
    assert changed.keys() <= {"same", "read", "create", "update", "delete"}
    assert changed.get("delete", {}).keys() == MAY_GO[commit]
    assert changed.get("update", {}) == MAY_CHANGE[commit]
