"""A cluster leaves nothing on the machine: run alone, for other tests change the machine, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.local_cluster import (
    kubectl_for,
    kubectl_pod,
    load_kubectl_image,
    machine_snapshot,
    others,
    quiet_progress,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.local_cluster import LocalCluster


def test_down_leaves_the_machine_as_it_was(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("gone")
    report = quiet_progress(tmp_path)
    ignore = others(cluster.layout)
    before = machine_snapshot(ignore=ignore)
    cluster.up(report)
    load_kubectl_image(cluster, report)
    kubectl = kubectl_for(cluster, tmp_path)
    pod = kubectl_pod("busy", "proxy")
    pod["spec"]["volumes"] = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "memory", "mountPath": "/memory"}]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8001, "hostPort": 8001}]
    kubectl.apply(pod)
    kubectl.wait("condition=Ready", "pod/busy")
    during = machine_snapshot(ignore=ignore)
    assert {kind for kind, lines in during.items() if lines - before[kind]} == {
        "links",
        "addresses",
        "routes",
        "cgroups",
        "daemons",
    }, "a running cluster shows on the machine as this and nothing else"
    assert cluster.leftovers() != []
    cluster.down(report)
    after = machine_snapshot(ignore=ignore)
    assert {kind: lines - before[kind] for kind, lines in after.items() if lines - before[kind]} == {}
    assert cluster.leftovers() == []
    cluster.down(report)
    assert cluster.leftovers() == []
