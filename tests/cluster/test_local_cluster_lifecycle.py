"""Clusters come, stay, stop and go: what is kept, and what goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.local_cluster import kubectl_pod, quiet_progress
from tools.images.containerd import NodeImages
from tools.local_cluster import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.fixtures.local_cluster import Kubectl
    from tools.local_cluster import LocalCluster


def test_a_changed_configuration_restarts_what_it_concerns(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {component.name: component.pid for component in cluster.status().components}
    monkeypatch.setattr("tools.local_cluster.kube_proxy.MEMORY_LIMIT_MIB", 65)
    monkeypatch.setattr("tools.local_cluster.kube_proxy.METRICS_PORT", 10250 + 11)
    cluster.up(quiet_progress(tmp_path))
    after = {component.name: component.pid for component in cluster.status().components}
    assert {name for name, pid in after.items() if pid != before[name]} == {"kube-proxy"}


def test_stop_ends_everything_and_keeps_state(cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    report = quiet_progress(tmp_path)
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


def test_clusters_run_side_by_side(
    cluster: LocalCluster, make_cluster: Callable[[str], LocalCluster], tmp_path: Path
) -> None:
    report = quiet_progress(tmp_path)
    other = make_cluster("other")
    other.start_runtime(report)
    assert not other.status().created
    assert NodeImages(other.containerd_socket).manifests() == {}, "images can be loaded before there is a cluster"
    other.up(report)
    assert {each.name for each in cluster.status().components} - {each.name for each in other.status().components} == {
        "kwok-controller"
    }, "who simulates no nodes needs no kwok"
    states = [state.load(each.layout.state_file) for each in (cluster, other)]
    blocks = [stored.network.block for stored in states if stored]
    assert not blocks[0].overlaps(blocks[1])
    other.down(report)
    assert cluster.status().running
