"""Clusters come, stay, stop and go: what is kept, and what goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.local_cluster import (
    kubectl_for,
    kubectl_pod,
    load_kubectl_image,
    quiet_progress,
)
from tools.local_cluster import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.local_cluster import LocalCluster


def test_stop_ends_everything_and_keeps_state(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("kept")
    report = quiet_progress(tmp_path)
    cluster.up(report)
    load_kubectl_image(cluster, report)
    kubectl = kubectl_for(cluster, tmp_path)
    kubectl("create", "configmap", "memory", "--from-literal=a=b")
    kubectl.apply(kubectl_pod("server", "proxy", restartPolicy="Always"))
    kubectl.wait("condition=Ready", "pod/server")
    cluster.stop(report)
    assert cluster.leftovers() == [f"folder {cluster.layout.folder}"]
    assert not cluster.status().running
    cluster.stop(report)
    cluster.up(report)
    assert kubectl.get("configmap", "memory")["data"] == {"a": "b"}
    kubectl.wait("condition=Ready", "pod/server")
    assert kubectl.get("pod", "server")["status"]["containerStatuses"][0]["restartCount"] == 1


def test_clusters_run_side_by_side(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    report = quiet_progress(tmp_path)
    first, second = make_cluster("one"), make_cluster("two")
    first.up(report)
    second.up(report)
    states = [state.load(cluster.layout.state_file) for cluster in (first, second)]
    blocks = [stored.network.block for stored in states if stored]
    assert not blocks[0].overlaps(blocks[1])
    first.down(report)
    assert second.status().running


def test_a_changed_configuration_restarts_what_it_concerns(
    make_cluster: Callable[[str], LocalCluster], tmp_path: Path, monkeypatch
) -> None:
    cluster = make_cluster("changed")
    report = quiet_progress(tmp_path)
    cluster.up(report)
    before = {component.name: component.pid for component in cluster.status().components}
    monkeypatch.setattr("tools.local_cluster.kube_proxy.MEMORY_LIMIT_MIB", 65)
    monkeypatch.setattr("tools.local_cluster.kube_proxy.METRICS_PORT", 10250 + 11)
    cluster.up(report)
    after = {component.name: component.pid for component in cluster.status().components}
    assert {name for name, pid in after.items() if pid != before[name]} == {"kube-proxy"}
