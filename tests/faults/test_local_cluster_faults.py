"""Whatever is killed, cut short or lost: the next `up` mends the cluster, and `down` always removes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.local_cluster import COMPONENTS, Kubectl, kubectl_for, kubectl_pod, quiet_progress, wait_until
from tools.local_cluster import cgroups, network, startup
from tools.local_cluster.processes import Process, read_process, send_signal, wait_until_ended
from tools.paths import REPOSITORY
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.local_cluster import LocalCluster


def component_process(cluster: LocalCluster, name: str) -> Process:
    pid = next(component.pid for component in cluster.status().components if component.name == name)
    assert pid is not None, f"{name} does not run"
    process = read_process(pid)
    assert process is not None
    return process


def kill(*processes: Process) -> None:
    for process in processes:
        send_signal(process, signal.SIGKILL)
    assert wait_until_ended(processes, timeout_seconds=30) == []


def node_init(cluster: LocalCluster) -> Process:
    init = cluster._node.init()
    assert init is not None
    return init


def can_execute(kubectl: Kubectl, pod: str) -> bool:
    try:
        return "Client Version" in kubectl("exec", pod, "--", "/kubectl", "version", "--client")
    except CommandError:
        return False


@pytest.fixture
def remembered(cluster: LocalCluster, kubectl: Kubectl) -> Callable[[], None]:
    """Put something into the cluster, and return a check that it is still there."""
    kubectl("delete", "configmap", "remembered", "--ignore-not-found")
    kubectl("create", "configmap", "remembered", "--from-literal=a=b")

    def check() -> None:
        assert cluster.status().running
        assert kubectl.get("configmap", "remembered")["data"] == {"a": "b"}

    return check


@pytest.mark.parametrize("name", COMPONENTS)
def test_up_restarts_a_killed_component(
    cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path, name: str
) -> None:
    victim = component_process(cluster, name)
    kill(victim)
    assert not cluster.status().running
    cluster.up(quiet_progress(tmp_path))
    assert component_process(cluster, name).start_ticks > victim.start_ticks
    remembered()


def test_pods_outlive_the_end_of_containerd_and_kubelet(
    cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.apply(kubectl_pod("outlives", "proxy"))
    kubectl.wait("condition=Ready", "pod/outlives")
    kill(component_process(cluster, "containerd"), component_process(cluster, "kubelet"))
    cluster.up(quiet_progress(tmp_path))
    kubectl.wait("condition=Ready", "pod/outlives")
    assert kubectl.get("pod", "outlives")["status"]["containerStatuses"][0]["restartCount"] == 0
    # the new kubelet is told of its pods a moment after it has said that it is ready
    wait_until(lambda: can_execute(kubectl, "outlives"), "the new kubelet knows the pod")
    kubectl("delete", "pod", "outlives", "--grace-period=1")


def test_up_replaces_a_component_that_hangs(
    cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "COMPONENT_TIMEOUT_SECONDS", 10.0)
    hanging = component_process(cluster, "kube-scheduler")
    send_signal(hanging, signal.SIGSTOP)
    cluster.up(quiet_progress(tmp_path))
    assert component_process(cluster, "kube-scheduler").pid != hanging.pid
    remembered()


def test_up_after_a_power_cut(cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path) -> None:
    kill(node_init(cluster))
    cluster.up(quiet_progress(tmp_path))
    remembered()


def test_up_after_a_reboot(cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path) -> None:
    """Processes, network and cgroups are gone, and the pids in old files belong to somebody else."""
    kill(node_init(cluster))
    network.disconnect(cluster.layout)
    cgroups.remove(cluster.layout.cgroup)
    with subprocess.Popen(["sleep", "infinity"]) as bystander:
        try:
            for file in (cluster.layout.control_plane / "pids").iterdir():
                file.write_text(str(bystander.pid))
            cluster.up(quiet_progress(tmp_path))
            remembered()
            cluster.stop(quiet_progress(tmp_path))
            assert bystander.poll() is None
        finally:
            bystander.kill()
    cluster.up(quiet_progress(tmp_path))
    remembered()


def test_up_after_its_link_was_removed(cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path) -> None:
    run(["ip", "link", "delete", "dev", cluster.layout.interface])
    assert not cluster.status().running
    cluster.up(quiet_progress(tmp_path))
    remembered()


def test_up_after_its_dns_was_deleted(cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("delete", "--namespace=kube-system", "deployment/coredns", "service/kube-dns", "configmap/coredns")
    wait_until(lambda: not cluster.status().dns_answers, "DNS ends")
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


def test_two_ups_at_once_make_one_cluster(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("twice")
    errors: list[BaseException] = []

    def up() -> None:
        try:
            cluster.up(quiet_progress(tmp_path))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert cluster.status().running
    programs = [
        process.arguments[0] for process in cluster._node.processes() if process.parent == node_init(cluster).pid
    ]
    components = [program for program in programs if not program.endswith("containerd-shim-runc-v2")]
    assert len(components) == len(set(components)) == len(COMPONENTS)


# Where `up` is cut short, told by what it prints, and whether the first `up` ever or one of a stopped cluster.
POINTS = (
    "starting the node",
    "configuring the control plane",
    "starting the control plane and containerd",
    "loaded",
    "starting the kubelet",
    "waiting for the node and DNS",
)
UP = """
import signal, sys
from pathlib import Path
# As in a terminal: what starts the tests in the background may ignore the interrupt, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tools.local_cluster import LocalCluster
from tools.progress import Progress
report = Progress(durations_file=Path(sys.argv[3]))
LocalCluster(sys.argv[1], home=Path(sys.argv[2])).up(report)
"""


def start_up(cluster: LocalCluster, tmp_path: Path) -> subprocess.Popen[str]:
    """Start `up` in a process group of its own, as a shell does."""
    layout = cluster.layout
    return subprocess.Popen(
        [sys.executable, "-c", UP, layout.name, str(layout.folder.parent), str(tmp_path / "durations.json")],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def cut_short(cluster: LocalCluster, tmp_path: Path, *, point: str, number: signal.Signals) -> None:
    """Signal an `up` and what it runs in the foreground as soon as it has come to a point."""
    with start_up(cluster, tmp_path) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if point in line:
                os.killpg(up.pid, number)
                break
        else:
            pytest.fail(f"`up` ended without saying {point!r}")


@pytest.mark.parametrize("point", POINTS)
def test_first_up_killed_then_up(make_cluster: Callable[[str], LocalCluster], tmp_path: Path, point: str) -> None:
    cluster = make_cluster("killed")
    cut_short(cluster, tmp_path, point=point, number=signal.SIGKILL)
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


@pytest.mark.parametrize("point", POINTS)
def test_first_up_killed_then_down(make_cluster: Callable[[str], LocalCluster], tmp_path: Path, point: str) -> None:
    cluster = make_cluster("killed")
    cut_short(cluster, tmp_path, point=point, number=signal.SIGKILL)
    cluster.down(quiet_progress(tmp_path))
    assert cluster.leftovers() == []


def test_first_up_killed_while_kwokctl_works(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("killed")
    with start_up(cluster, tmp_path) as up:
        wait_until((cluster.layout.pki / "ca.crt").exists, "kwokctl begins")
        os.killpg(up.pid, signal.SIGKILL)
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


def test_first_up_interrupted_then_up(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("interrupted")
    cut_short(cluster, tmp_path, point="starting the kubelet", number=signal.SIGINT)
    survivors = {process.arguments[0] for process in cluster._node.processes()}
    assert survivors, "what was started already goes on"
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


@pytest.mark.parametrize("point", ["starting the node", "starting the control plane and containerd", "waiting for"])
def test_later_up_killed_then_up(
    cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path, point: str
) -> None:
    cluster.stop(quiet_progress(tmp_path))
    cut_short(cluster, tmp_path, point=point, number=signal.SIGKILL)
    cluster.up(quiet_progress(tmp_path))
    remembered()


def test_up_after_files_were_lost(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("lost")
    cluster.up(quiet_progress(tmp_path))
    kubectl = kubectl_for(cluster, tmp_path)
    for lost in ("state.json", "kwok", "config", "node"):
        cluster.stop(quiet_progress(tmp_path))
        path = cluster.layout.folder / lost
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        cluster.up(quiet_progress(tmp_path))
        assert cluster.status().running, lost
        assert kubectl.get("nodes")["items"][0]["metadata"]["name"] == cluster.node_name, lost


def test_up_after_the_state_file_was_torn(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("torn")
    cluster.up(quiet_progress(tmp_path))
    text = cluster.layout.state_file.read_text()
    cluster.layout.state_file.write_text(text[: len(text) // 2])
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


def test_down_of_a_half_removed_cluster(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("half")
    cluster.up(quiet_progress(tmp_path))
    for lost in (cluster.layout.state_file, cluster.layout.node_config):
        lost.unlink()
    shutil.rmtree(cluster.layout.kwok)
    cluster.down(quiet_progress(tmp_path))
    assert cluster.leftovers() == []


def test_down_does_not_reach_into_foreign_mounts(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    cluster = make_cluster("mounted")
    precious, inside = tmp_path / "precious", cluster.layout.folder / "volumes" / "data"
    precious.mkdir()
    (precious / "file").touch()
    inside.mkdir(parents=True)
    run(["mount", "--bind", precious, inside])
    try:
        with pytest.raises(RuntimeError, match="umount"):
            cluster.down(quiet_progress(tmp_path))
    finally:
        run(["umount", inside])
    assert (precious / "file").exists()
