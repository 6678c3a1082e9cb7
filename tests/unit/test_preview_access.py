"""The cluster's roles for previews cover what stacks declare, and nothing that shows a secret or grants a right."""

from __future__ import annotations

import re
from typing import Any

import yaml

from infra.monitoring.alertmanager import CONFIG_SECRET
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row

READ = REPOSITORY / "docs" / "preview-access.yaml"
DRY_RUN = REPOSITORY / "docs" / "preview-dry-run.yaml"
GOLDEN = REPOSITORY / "tests" / "manifests" / "golden"
IRREGULAR = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses", "StorageClass": "storageclasses"}
IRREGULAR |= {"Prometheus": "prometheuses", "ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
RBAC = "rbac.authorization.k8s.io"
UNTRIED = {("", "secrets"), ("", "nodes"), *((RBAC, f"{name}s") for name in ("role", "rolebinding", "clusterrole"))}
UNTRIED |= {(RBAC, "clusterrolebindings")}
"""Kinds of which a preview tries no change."""

Rule = dict[str, Any]


def rules(file: Any) -> list[Rule]:
    [role] = [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each["kind"] == "ClusterRole"]
    return role["rules"]


def covered(file: Any) -> dict[tuple[str, str], set[str]]:
    """Return the verbs by (group, resource)."""
    pairs = [(rule, group, each) for rule in rules(file) for group in rule["apiGroups"] for each in rule["resources"]]
    return {(group, resource): set(rule["verbs"]) for rule, group, resource in pairs}


def resource(api_version: str, kind: str) -> tuple[str, str]:
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return group, IRREGULAR.get(kind, f"{kind.lower()}s")


def declared() -> set[tuple[str, str]]:
    """Return (group, resource) of every Kubernetes object in the golden files and in the program's manifests."""
    kinds = set()
    for file in GOLDEN.glob("urns-*.txt"):
        for version, kind in re.findall(r"kubernetes:([\w./]+):(\w+)::", file.read_text(encoding="utf-8")):
            kinds.add(resource(version.removeprefix("core/"), kind))
    text = "\n".join(
        file.read_text(encoding="utf-8")
        for folder in ("infra", "workloads")
        for file in (REPOSITORY / folder).rglob("*.py")
    )
    for version, kind in re.findall(r'"apiVersion": "([^"]+)",\s+"kind": "(\w+)"', text):
        kinds.add(resource(version, kind))
    return kinds


def test_every_kind_that_is_declared_can_be_read():
    assert len(declared()) > 25
    assert declared() - covered(READ).keys() == set()


def test_every_kind_that_is_declared_is_tried_unless_that_shows_secrets_or_grants_rights():
    assert declared() - UNTRIED - covered(DRY_RUN).keys() == set()
    assert covered(DRY_RUN).keys() & UNTRIED == set()


def test_what_is_tried_can_be_read_anyway():
    """The answer to a dry run is the object."""
    assert covered(DRY_RUN).keys() - covered(READ).keys() == {("athanor.dev", "previews")}


@each_row(("file", "verbs"), [(READ, {"get", "list"}), (DRY_RUN, {"create", "patch", "update", "dry-run"})])
def test_no_other_verb_is_granted(file, verbs):
    assert set().union(*covered(file).values()) == verbs
    assert not [rule for rule in rules(file) if "*" in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}]


def test_the_only_secret_is_the_one_that_holds_none():
    [rule] = [rule for rule in rules(READ) if "secrets" in rule["resources"]]
    assert rule == {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [CONFIG_SECRET], "verbs": ["get"]}
