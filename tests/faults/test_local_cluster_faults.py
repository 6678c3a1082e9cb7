"""Whatever is killed, cut short or lost: the next `up` mends the cluster, and `down` always removes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.local_cluster import COMPONENTS, Kubectl, kubectl_pod, load_kubectl_image, quiet_progress
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.local_cluster import LocalCluster, cgroups, network, startup
from tools.local_cluster.processes import Process, read_process, send_signal, wait_until_ended
from tools.paths import REPOSITORY
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def component_process(cluster: LocalCluster, name: str) -> Process:
    pid = next(component.pid for component in cluster.status().components if component.name == name)
    assert pid is not None, f"{name} does not run"
    process = read_process(pid)
    assert process is not None
    return process


def kill(*processes: Process) -> None:
    for process in processes:
        send_signal(process, signal.SIGKILL)
    assert wait_until_ended(processes, timeout_seconds=PATIENCE_SECONDS) == []


def node_init(cluster: LocalCluster) -> Process:
    init = cluster._node.init()
    assert init is not None
    return init


def can_execute(kubectl: Kubectl, pod: str) -> bool:
    try:
        return "Client Version" in kubectl("exec", pod, "--", "/kubectl", "version", "--client")
    except CommandError:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that two simultaneous `up`s created; each test leaves it in a state that the next `up` repairs."""
    folder = tmp_path_factory.mktemp("cluster")
    shared = LocalCluster("shared", home=folder)
    try:
        with ThreadPoolExecutor(2) as threads:
            for up in [threads.submit(shared.up, quiet_progress(folder)) for _ in range(2)]:
                up.result()
        yield shared
    finally:
        shared.down(quiet_progress(folder))
    assert shared.leftovers() == []


@pytest.fixture
def remembered(cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path) -> Callable[[], None]:
    """Put something into the running cluster, and return a check that it is still there."""
    cluster.up(quiet_progress(tmp_path))
    kubectl("delete", "configmap", "remembered", "--ignore-not-found")
    kubectl("create", "configmap", "remembered", "--from-literal=a=b")

    def check() -> None:
        assert cluster.status().running
        assert kubectl.get("configmap", "remembered")["data"] == {"a": "b"}

    return check


def test_two_ups_at_once_make_one_cluster(cluster: LocalCluster) -> None:
    assert cluster.status().running
    programs = [
        process.arguments[0] for process in cluster._node.processes() if process.parent == node_init(cluster).pid
    ]
    components = [program for program in programs if not program.endswith("containerd-shim-runc-v2")]
    assert len(components) == len(set(components)) == len(COMPONENTS)


def kill_components(cluster: LocalCluster, *names: str) -> Callable[[], None]:
    """Kill programs that must then be reported as missing; return a check that others run in their place."""
    victims = {name: component_process(cluster, name) for name in names}
    kill(*victims.values())
    status = cluster.status()
    assert {component.name for component in status.components if component.pid is None} == set(names)
    assert not status.running

    def check() -> None:
        for name, victim in victims.items():
            assert component_process(cluster, name).start_ticks > victim.start_ticks

    return check


@pytest.mark.parametrize(
    "names",
    [("etcd", "kube-controller-manager", "kwok-controller"), ("kube-apiserver", "kube-scheduler", "kube-proxy")],
    ids=", ".join,
)
def test_up_restarts_killed_components(
    cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path, names: tuple[str, ...]
) -> None:
    run_again = kill_components(cluster, *names)
    cluster.up(quiet_progress(tmp_path))
    run_again()
    remembered()


def test_pods_outlive_the_end_of_containerd_and_kubelet(
    cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    load_kubectl_image(cluster, quiet_progress(tmp_path))
    kubectl.apply(kubectl_pod("outlives", "proxy"))
    kubectl.wait("condition=Ready", "pod/outlives")
    run_again = kill_components(cluster, "containerd", "kubelet")
    cluster.up(quiet_progress(tmp_path))
    run_again()
    kubectl.wait("condition=Ready", "pod/outlives")
    assert kubectl.get("pod", "outlives")["status"]["containerStatuses"][0]["restartCount"] == 0
    # the new kubelet learns of its pods a moment after it has reported that it is ready
    wait_until(lambda: can_execute(kubectl, "outlives"), "the new kubelet knows the pod")
    kubectl("delete", "pod", "outlives", "--grace-period=1")


def test_up_mends_what_runs_and_does_not_work(
    cluster: LocalCluster,
    remembered: Callable[[], None],
    kubectl: Kubectl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS was deleted, the link to the machine removed, a component hangs."""
    monkeypatch.setattr(startup, "COMPONENT_TIMEOUT_SECONDS", 10.0)
    kubectl("delete", "--namespace=kube-system", "deployment/coredns", "service/kube-dns", "configmap/coredns")
    wait_until(lambda: not cluster.status().dns_answers, "DNS ends")
    hanging = component_process(cluster, "kube-scheduler")
    send_signal(hanging, signal.SIGSTOP)
    run(["ip", "link", "delete", "dev", cluster.layout.interface])
    assert not cluster.status().running
    cluster.up(quiet_progress(tmp_path))
    assert component_process(cluster, "kube-scheduler").pid != hanging.pid
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


# Where `up` is interrupted, recognized by what it prints.
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


def cut_short(cluster: LocalCluster, tmp_path: Path, point: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal an `up` and what it runs in the foreground as soon as it has come to a point."""
    with start_up(cluster, tmp_path) as up:
        assert up.stderr is not None
        said: list[str] = []
        for line in up.stderr:
            said.append(line)
            if point in line:
                os.killpg(up.pid, number)
                break
        else:
            pytest.fail(f"`up` ended without saying {point!r}, but:\n{''.join(said)}")


def kill_while_kwokctl_works(cluster: LocalCluster, tmp_path: Path) -> None:
    with start_up(cluster, tmp_path) as up:
        wait_until((cluster.layout.pki / "ca.crt").exists, "kwokctl begins")
        os.killpg(up.pid, signal.SIGKILL)


def test_first_up_cut_short_again_and_again(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    """Each next `up` takes over what the one before has left, and comes further."""
    cluster = make_cluster("killed")
    cut_short(cluster, tmp_path, "starting the node")
    kill_while_kwokctl_works(cluster, tmp_path)
    cut_short(cluster, tmp_path, "starting the control plane")
    cut_short(cluster, tmp_path, "loaded")
    cut_short(cluster, tmp_path, "starting the kubelet", signal.SIGINT)
    survivors = {process.arguments[0] for process in cluster._node.processes()}
    assert survivors, "what was started already goes on"
    cut_short(cluster, tmp_path, "waiting for the node and DNS")
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


def test_later_up_cut_short_again_and_again(
    cluster: LocalCluster, remembered: Callable[[], None], tmp_path: Path
) -> None:
    """After a power cut: what was stopped in order is started in the tests of a lifecycle."""
    kill(node_init(cluster))
    for point in ("starting the node", "starting the control plane", "waiting for"):
        cut_short(cluster, tmp_path, point)
    cluster.up(quiet_progress(tmp_path))
    remembered()


def test_up_after_files_were_lost(cluster: LocalCluster, kubectl: Kubectl, tmp_path: Path) -> None:
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


def test_up_after_the_state_file_was_torn(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.up(quiet_progress(tmp_path))
    text = cluster.layout.state_file.read_text()
    cluster.layout.state_file.write_text(text[: len(text) // 2])
    cluster.up(quiet_progress(tmp_path))
    assert cluster.status().running


@pytest.mark.parametrize("point", ["starting the node", "starting the control plane"])
def test_down_after_a_first_up_that_was_killed(
    make_cluster: Callable[[str], LocalCluster], tmp_path: Path, point: str
) -> None:
    cluster = make_cluster("killed")
    cut_short(cluster, tmp_path, point)
    cluster.down(quiet_progress(tmp_path))
    assert cluster.leftovers() == []


def test_down_of_a_half_removed_cluster(make_cluster: Callable[[str], LocalCluster], tmp_path: Path) -> None:
    """Of one that runs, as far as it came: a whole one is removed at the end of every other test."""
    cluster = make_cluster("half")
    cut_short(cluster, tmp_path, "waiting for the node and DNS")
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
