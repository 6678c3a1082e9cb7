"""The configuration of the components: the settings whose lack was once a failure, and their consistency."""

import tomllib
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from infra.images import PAUSE_IMAGE
from tests.tables import each_row
from tools.local_cluster import container_runtime, control_plane, dns, kube_proxy, kubelet
from tools.local_cluster.component import Component, configuration_file
from tools.local_cluster.container_runtime import (
    CNI_PLUGINS,
    cni_configuration,
    containerd_configuration,
    find_cni_plugins,
)
from tools.local_cluster.layout import Layout, Network

LAYOUT = Layout(name="local", folder=Path("/home/a/local"))
NETWORK = Network(IPv4Network("10.64.0.0/18"))
BINARIES = {tool: Path("/tools") / tool for tool in (*control_plane.TOOLS, control_plane.SIMULATOR)}


def patches(component: str) -> dict[str, str]:
    configuration = control_plane.kwokctl_configuration(LAYOUT, NETWORK, BINARIES)
    (entry,) = [patch for patch in configuration["componentsPatches"] if patch["name"] == component]
    return {argument["key"]: argument["value"] for argument in entry["extraArgs"]}


def test_kwok_keeps_off_the_real_node() -> None:
    arguments = patches("kwok-controller")
    assert arguments["manage-all-nodes"] == "false"
    assert arguments["manage-nodes-with-annotation-selector"] == "kwok.x-k8s.io/node=fake"
    assert arguments["cidr"] == str(NETWORK.simulated_pods)


def test_kwok_neither_runs_nor_is_looked_for_where_no_node_is_simulated() -> None:
    binaries = {tool: binary for tool, binary in BINARIES.items() if tool != control_plane.SIMULATOR}
    configuration = control_plane.kwokctl_configuration(LAYOUT, NETWORK, binaries)
    assert configuration["options"]["disable"] == ["kwok-controller"]
    assert "kwokControllerBinary" not in configuration["options"]
    assert "kwok-controller" not in {patch["name"] for patch in configuration["componentsPatches"]}


def test_the_api_server_reaches_the_kubelet_and_those_that_extend_it() -> None:
    arguments = patches("kube-apiserver")
    assert arguments["kubelet-preferred-address-types"] == "InternalIP"
    assert {"kubelet-client-certificate", "kubelet-client-key", "kubelet-certificate-authority"} <= set(arguments)
    assert arguments["requestheader-client-ca-file"] == "/home/a/local/config/front-proxy-ca.crt"
    assert arguments["proxy-client-cert-file"] == "/home/a/local/config/front-proxy-client.crt"
    assert arguments["requestheader-allowed-names"] == "front-proxy-client"
    assert arguments["enable-aggregator-routing"] == "true", "there is no route to services"


def test_only_the_api_server_leaves_loopback() -> None:
    options = control_plane.kwokctl_configuration(LAYOUT, NETWORK, BINARIES)["options"]
    assert options["bindAddress"] == "127.0.0.1"
    assert str(NETWORK.node) in options["kubeApiserverCertSANs"]
    assert str(NETWORK.api_service) in options["kubeApiserverCertSANs"]
    bound = {name for name in control_plane.ADDRESSES if "bind-address" in patches(name)}
    assert bound == {"kube-apiserver"}


def test_every_binary_is_given_so_that_nothing_is_downloaded() -> None:
    options = control_plane.kwokctl_configuration(LAYOUT, NETWORK, BINARIES)["options"]
    assert {options[option] for option in control_plane.BINARY_OPTIONS.values()} == {
        str(binary) for tool, binary in BINARIES.items() if tool != "kwokctl"
    }


def test_components_are_read_from_what_kwokctl_made(tmp_path: Path) -> None:
    layout = Layout(name="local", folder=tmp_path)
    assert control_plane.components(layout) == []
    layout.control_plane.mkdir(parents=True)
    (layout.control_plane / "kwok.yaml").write_text(
        "kind: KwokctlConfiguration\ncomponents:\n"
        "- {name: etcd, binary: /bin/etcd, args: [--a=b], envs: [{name: GOGC, value: '40'}]}\n"
        "---\nkind: Stage\n"
    )
    (etcd,) = control_plane.components(layout)
    assert etcd.command == ("/bin/etcd", "--a=b")
    assert etcd.environment == {"GOGC": "40"}


def test_the_kubelet_runs_where_it_must() -> None:
    configuration = kubelet.kubelet_configuration(LAYOUT, NETWORK, Path("/resolv.conf"))
    assert configuration["failCgroupV1"] is False
    assert configuration["failSwapOn"] is False
    assert configuration["cgroupRoot"] == f"/{LAYOUT.cgroup}"
    assert configuration["clusterDNS"] == [str(NETWORK.dns_service)]
    assert configuration["authentication"]["anonymous"] == {"enabled": False}
    assert configuration["address"] == str(NETWORK.node)
    assert not any("%" in limit for name, limit in configuration["evictionHard"].items() if "inodes" not in name)
    # k8s.io/kubernetes/pkg/kubelet/apis/podresources: <root>/pod-resources/<up to 10 digits>
    assert len(f"{kubelet.ROOT}/pod-resources/4294967295") <= 107


def test_kube_proxy_leaves_the_machines_connection_table() -> None:
    configuration = kube_proxy.kube_proxy_configuration(LAYOUT, NETWORK)
    assert configuration["conntrack"] == {"maxPerCore": 0, "min": 0}
    assert configuration["nodePortAddresses"] == [f"{NETWORK.node}/32"]


def test_containerd_uses_nothing_of_the_systems_own_and_keeps_quotes_in_paths() -> None:
    configuration = tomllib.loads(containerd_configuration(LAYOUT, Path("/usr/lib/cni")))
    cri = configuration["plugins"]["io.containerd.grpc.v1.cri"]
    assert configuration["grpc"]["address"] == "/home/a/local/containerd.sock"
    assert cri["sandbox_image"] == PAUSE_IMAGE
    assert cri["restrict_oom_score_adj"] is True
    assert cri["disable_apparmor"] is True
    assert cri["cni"]["conf_dir"].startswith("/home/a/local/")
    assert "io.containerd.internal.v1.opt" in configuration["disabled_plugins"], "it makes /opt/containerd"
    layout = Layout(name="local", folder=Path('/home/a "b"\\c/local'))
    configuration = tomllib.loads(containerd_configuration(layout, Path("/usr/lib/cni")))
    assert configuration["grpc"]["address"] == '/home/a "b"\\c/local/containerd.sock'


def test_pods_get_addresses_of_the_cluster() -> None:
    plugins: Any = cni_configuration(NETWORK)["plugins"]
    assert plugins[0]["ipam"]["ranges"] == [[{"subnet": str(NETWORK.pods)}]]
    assert {plugin["type"] for plugin in plugins} | {plugins[0]["ipam"]["type"]} <= set(CNI_PLUGINS)


def test_cni_plugins_are_found_only_complete(tmp_path: Path) -> None:
    part, whole = tmp_path / "part", tmp_path / "whole"
    for folder, plugins in ((part, CNI_PLUGINS[:-1]), (whole, CNI_PLUGINS)):
        folder.mkdir()
        for plugin in plugins:
            (folder / plugin).touch()
    assert find_cni_plugins([str(tmp_path / "missing"), str(part), str(whole)]) == whole
    assert find_cni_plugins([str(part)]) is None


def test_coredns_may_bind_its_port_and_stays_on_the_real_node() -> None:
    manifests = dns.manifests(LAYOUT, NETWORK)
    deployment = next(manifest for manifest in manifests.values() if manifest["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "local-node-0"}
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
    assert "forward" not in dns.COREFILE


def test_manifests_come_after_what_they_refer_to() -> None:
    kinds = [manifest["kind"] for manifest in dns.manifests(LAYOUT, NETWORK).values()]
    assert kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kinds.index("ConfigMap") < kinds.index("Deployment")
    assert kinds.index("ClusterRole") < kinds.index("ClusterRoleBinding")


@each_row(("one", "other", "same"), [("a", "a", True), ("a", "b", False)])
def test_another_content_is_another_file(one: str, other: str, *, same: bool) -> None:
    paths = [configuration_file(Path("/c"), "kubelet.yaml", text) for text in (one, other)]
    assert (paths[0] == paths[1]) is same
    assert paths[0].suffix == ".yaml"


def test_components_are_told_apart_by_program() -> None:
    components: list[Component] = [
        kubelet.kubelet(LAYOUT, NETWORK, Path("/tools/kubelet")),
        kube_proxy.kube_proxy(LAYOUT, NETWORK, Path("/tools/kube-proxy")),
    ]
    for component in components:
        config = next(word for word in component.command if word.startswith("--config="))
        assert Path(config.removeprefix("--config=")) in component.files


def test_every_go_program_has_a_limit_and_collects_its_garbage_early(monkeypatch) -> None:
    monkeypatch.setattr(container_runtime, "find_cni_plugins", lambda: Path("/cni"))
    programs = [
        container_runtime.containerd(LAYOUT, NETWORK),
        kubelet.kubelet(LAYOUT, NETWORK, Path("/bin/kubelet")),
        kube_proxy.kube_proxy(LAYOUT, NETWORK, Path("/bin/kube-proxy")),
    ]
    for program in programs:
        assert program.environment["GOGC"] == "100"
        assert program.environment["GOMEMLIMIT"].endswith("MiB")
