"""The real engine asks our guard before every update, in previews too, and prints what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.engine_project import EngineProject
from tools.process import CommandError

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json
import os
import pulumi
import pulumi_kubernetes as kubernetes
from infra.create_only import CreateOnly, guard
from infra.manifests import resource
from infra.namespaces import default_deny_manifest, namespace_manifest
from infra.workload_namespace import WorkloadNamespace, WorkloadNamespaceArgs

def unlike(old, new):
    return [port["name"] for port in old["ports"]] != [port["name"] for port in new["ports"]]

field = CreateOnly(
    input="spec", setting="service.ports", limit="names are for life", fix="restore them", forbids=unlike
)
provider = kubernetes.Provider("files", render_yaml_to_directory="rendered")
in_files = pulumi.ResourceOptions(provider=provider)
if os.environ.get("RELEASE") == "earlier":
    resource("workload-namespace", namespace_manifest("team-a"), in_files)
    resource("workload-default-deny", default_deny_manifest("team-a"), in_files)
else:
    namespace = WorkloadNamespaceArgs(
        name=os.environ.get("NAMESPACE", "team-a"), pod_security="restricted", may_leave=os.environ.get("LEAVE")
    )
    WorkloadNamespace("workloads", namespace, in_files)
kubernetes.core.v1.Service(
    "service",
    metadata={"name": "service", "labels": {"label": os.environ.get("LABEL", "first")}},
    spec={"ports": json.loads(os.environ["PORTS"])},
    opts=pulumi.ResourceOptions(
        provider=provider, hooks=guard("service-create-only", [field]), ignore_changes=["spec.ports[*].port"]
    ),
)
"""
BORN = '[{"name": "a", "port": 1}, {"name": "b", "port": 2}]'
RENAMED = '[{"name": "z", "port": 1}, {"name": "b", "port": 2}]'
SHORTER = '[{"name": "a", "port": 1}]'
RENUMBERED = '[{"name": "a", "port": 9}, {"name": "b", "port": 2}]'


def test_a_change_that_would_never_be_made_is_refused_and_others_go_through(tmp_path: Path) -> None:
    born = EngineProject.create(tmp_path / "guarded", PROGRAM, "kubernetes", {"PORTS": BORN})
    born.with_variables(RELEASE="earlier").up()
    printed = born.up("--diff")
    assert "+ athanor:infra:WorkloadNamespace: (create)" in printed
    assert "1 created" in printed
    assert "deleted" not in printed
    assert "replaced" not in printed

    for command in (born.with_variables(PORTS=SHORTER).preview, born.with_variables(PORTS=RENAMED).up):
        with pytest.raises(CommandError) as refused:
            command()
        message = str(refused.value)
        assert "service.ports = " in message
        assert "names are for life. Fix: restore them" in message
        assert "Traceback" not in message

    # A component's own inputs are guarded as well, before any of its children is replaced.
    moved = born.with_variables(NAMESPACE="team-b")
    for command in (moved.preview, moved.up):
        with pytest.raises(CommandError, match="athanor:namespace = 'team-b': was 'team-a' at creation"):
            command()
    moved.with_variables(LEAVE="team-a").preview()

    # Had the refused names reached the state, this would be refused, too.
    relabelled = born.with_variables(LABEL="second")
    relabelled.up()
    # An ignored element of a list is not a change.
    relabelled.with_variables(PORTS=RENUMBERED).preview("--expect-no-changes")
