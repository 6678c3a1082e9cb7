"""A local cluster does what a cluster should, and nothing to the machine it runs on."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.local_cluster import COMPONENTS, Kubectl, kernel_settings, kubectl_pod, quiet_progress
from tests.waiting import wait_until
from tools.local_cluster import dns, state
from tools.local_cluster.kubelet import KUBELET_PORT
from tools.local_cluster.processes import PROC, Process, all_processes
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.local_cluster import LocalCluster
    from tools.local_cluster.layout import Network

IN_CLUSTER_KUBECONFIG = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://kubernetes.default.svc",
                    "certificate-authority": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
                },
            }
        ],
        "users": [{"name": "u", "user": {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
)


@pytest.fixture
def addresses(cluster: LocalCluster) -> Network:
    stored = state.load(cluster.layout.state_file)
    assert stored is not None
    return stored.network


@pytest.fixture
def pods(kubectl: Kubectl) -> Iterator[list[str]]:
    """Names of pods to remove at the end of the test."""
    names: list[str] = []
    yield names
    for name in names:
        kubectl("delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")


def node_processes(cluster: LocalCluster) -> list[Process]:
    init = cluster._node.init()
    assert init is not None
    return [init, *cluster._node.processes()]


def test_every_component_works(cluster: LocalCluster) -> None:
    status = cluster.status()
    assert {component.name for component in status.components if not component.healthy} == set()
    assert {component.name for component in status.components} == set(COMPONENTS)
    assert status.node_ready
    assert status.dns_answers


def test_up_again_restarts_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    before = {(process.pid, process.start_ticks) for process in node_processes(cluster)}
    cluster.up(quiet_progress(tmp_path))
    assert before <= {(process.pid, process.start_ticks) for process in node_processes(cluster)}


def test_a_pod_reaches_the_api_by_name(kubectl: Kubectl, pods: list[str]) -> None:
    pods.append("asks-by-name")
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "in-cluster"},
            "data": {"config": IN_CLUSTER_KUBECONFIG},
        }
    )
    pod = kubectl_pod("asks-by-name", "--kubeconfig=/config/config", "get", "--raw", "/version")
    pod["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "in-cluster"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "config", "mountPath": "/config"}]
    kubectl.apply(pod)
    kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/asks-by-name")
    assert '"gitVersion"' in kubectl("logs", "asks-by-name")


def test_pods_reach_each_other_through_a_service(kubectl: Kubectl, pods: list[str], addresses: Network) -> None:
    pods += ["serves", "asks"]
    serve = ["proxy", "--address=0.0.0.0", "--accept-hosts=.*", "--port=8001"]
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "serves"},
            "spec": {"selector": {"app": "serves"}, "ports": [{"port": 80, "targetPort": 8001}]},
        },
        kubectl_pod("serves", *serve),
    )
    kubectl.wait("condition=Ready", "pod/serves")
    kubectl.apply(kubectl_pod("asks", "--server=http://serves", "get", "--raw", "/version", restartPolicy="OnFailure"))
    kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/asks")
    assert '"gitVersion"' in kubectl("logs", "asks")
    service = kubectl.get("service", "serves")["spec"]["clusterIP"]
    assert dns.query(str(addresses.dns_service), "serves.default.svc.cluster.local") == [IPv4Address(service)]
    with urllib.request.urlopen(f"http://{service}/version", timeout=10) as answer:
        assert "gitVersion" in json.load(answer)


def test_exec_in_a_pod(kubectl: Kubectl, pods: list[str]) -> None:
    pods.append("waits")
    kubectl.apply(kubectl_pod("waits", "proxy"))
    kubectl.wait("condition=Ready", "pod/waits")
    assert "gitVersion" in kubectl("exec", "waits", "--", "/kubectl", "version", "--client", "-o", "json")


def simulated_node(name: str) -> dict[str, Any]:
    resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {"taints": [{"key": "simulated", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def test_a_simulated_node_runs_gpu_pods_in_name(kubectl: Kubectl, pods: list[str], addresses: Network) -> None:
    pods.append("on-gpu")
    kubectl.apply(simulated_node("gpu-0"))
    try:
        kubectl.wait("condition=Ready", "node/gpu-0")
        pod = kubectl_pod("on-gpu", tolerations=[{"key": "simulated", "operator": "Exists"}])
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
        kubectl.apply(pod)
        kubectl.wait("condition=Ready", "pod/on-gpu")
        status = kubectl.get("pod", "on-gpu")
        assert status["spec"]["nodeName"] == "gpu-0"
        assert IPv4Address(status["status"]["podIP"]) in addresses.simulated_pods
    finally:
        kubectl("delete", "node", "gpu-0")


def test_kwok_leaves_the_real_node_alone(kubectl: Kubectl, cluster: LocalCluster) -> None:
    node = kubectl.get("node", cluster.node_name, "--show-managed-fields")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    managers = {entry["manager"] for entry in node["metadata"]["managedFields"]}
    assert not {manager for manager in managers if "kwok" in manager}


def test_nothing_is_in_the_machines_namespaces(cluster: LocalCluster) -> None:
    machine = {kind: (PROC / "self" / "ns" / kind).readlink().name for kind in ("net", "mnt", "pid")}
    for process in node_processes(cluster):
        for kind, own in machine.items():
            assert process.namespace(kind) not in {own, None}, process


def test_the_node_has_no_interface_that_leads_elsewhere(cluster: LocalCluster) -> None:
    links = json.loads(cluster._node.run(["ip", "-json", "link"]))
    assert {link["ifname"] for link in links if not link["ifname"].startswith("veth")} == {"lo", "eth0"}
    routes = json.loads(cluster._node.run(["ip", "-json", "route"]))
    assert "default" not in {route["dst"] for route in routes}


def test_what_listens_beyond_loopback_is_meant_to(cluster: LocalCluster, addresses: Network) -> None:
    lines = cluster._node.run(["ss", "--no-header", "--listening", "--tcp", "--udp", "--numeric"]).splitlines()
    listening = {line.split()[4] for line in lines}
    beyond = {address for address in listening if not address.startswith(("127.", "[::1]"))}
    assert beyond == {"*:6443", f"{addresses.node}:{KUBELET_PORT}"}


def test_no_process_of_the_cluster_listens_on_the_machine(cluster: LocalCluster) -> None:
    own_sockets = {target for process in node_processes(cluster) for target in _open_sockets(process)}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = (PROC / "net" / table).read_text().splitlines()[1:]
        assert not {f"socket:[{row.split()[9]}]" for row in rows} & own_sockets


def _open_sockets(process: Process) -> set[str]:
    targets: set[str] = set()
    with suppress(FileNotFoundError):  # a process that has ended meanwhile listens on nothing
        for entry in (PROC / str(process.pid) / "fd").iterdir():
            with suppress(FileNotFoundError):
                targets.add(str(entry.readlink()))
    return {target for target in targets if target.startswith("socket:")}


def test_anonymous_requests_are_refused(addresses: Network) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for url, status in (
        (f"https://{addresses.node}:{KUBELET_PORT}/pods", 401),
        (f"https://{addresses.node}:6443/api/v1/secrets", 403),
    ):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(url, timeout=10, context=context)
        refusal.value.close()
        assert refusal.value.code == status


def test_the_kubelet_may_read_only_what_its_pods_use(cluster: LocalCluster, kubectl: Kubectl) -> None:
    kubectl("create", "secret", "generic", "not-for-the-node", "--from-literal=a=b")
    kubelet = [str(kubectl.program), f"--kubeconfig={cluster.layout.config / 'kubelet.kubeconfig'}"]
    with pytest.raises(CommandError, match="Forbidden"):
        cluster._node.run([*kubelet, "get", "secret", "not-for-the-node"])


def test_pod_security_levels_are_enforced(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    with pytest.raises(CommandError, match="violates PodSecurity"):
        kubectl("apply", "-n", "strict", "-f", "-", stdin=json.dumps(kubectl_pod("loose", "version")))


def test_the_machines_kernel_settings_stay(kernel_settings_before: dict[str, str], cluster: LocalCluster) -> None:
    assert cluster.status().running
    assert kernel_settings() == kernel_settings_before
    assert cluster._node.run(["cat", "/proc/sys/vm/overcommit_memory"]).strip() == "1"


def test_a_pod_that_ends_leaves_no_process(cluster: LocalCluster, kubectl: Kubectl) -> None:
    kubectl.apply(kubectl_pod("short", "version", "--client"))
    kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/short")
    kubectl("delete", "pod", "short")
    shims = [process for process in cluster._node.processes() if "containerd-shim-runc-v2" in process.arguments[0]]
    running = kubectl.get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={cluster.node_name}")["items"]
    wait_until(lambda: len(shims) >= len(running), "one shim per pod")
    zombies = [pid for pid in PROC.glob("[0-9]*") if _is_zombie_of(pid, cluster)]
    assert zombies == []


def _is_zombie_of(folder: Path, cluster: LocalCluster) -> bool:
    init = cluster._node.init()
    assert init is not None
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] == "Z" and int(fields[1]) == init.pid


def test_only_this_cluster_is_seen_as_this_cluster(cluster: LocalCluster) -> None:
    inits = [process for process in all_processes() if process.is_namespace_init]
    assert len(inits) > 1, "the node and its containers"
    assert cluster._node.init() in inits
