"""The node's own containerd, and the pod network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from infra.images import PAUSE_IMAGE
from tools.local_cluster.component import Component, configuration_file, go_memory, unix_socket_probe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.local_cluster.layout import Layout, Network

CNI_PLUGINS = ("ptp", "host-local", "loopback", "portmap")
# Debian and Ubuntu; Fedora and RHEL; what the upstream releases are commonly unpacked to
CNI_FOLDERS = ("/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin")
MEMORY_LIMIT_MIB = 128


def find_cni_plugins(folders: Iterable[str] = CNI_FOLDERS) -> Path | None:
    """Return the folder that holds every CNI plugin the node uses, or None."""
    for folder in folders:
        if all((Path(folder) / plugin).exists() for plugin in CNI_PLUGINS):
            return Path(folder)
    return None


def containerd_configuration(layout: Layout, cni_plugins: Path) -> str:
    """Return containerd's configuration (TOML, https://github.com/containerd/containerd/blob/main/docs/cri/config.md).

    /var/lib and /run are the node's own. /run ends with it, as on a machine that is switched off: containerd then
    finds no running container, which is the truth. Programs outside the node reach the socket in the cluster's folder.
    """
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = {json.dumps(str(layout.containerd_socket))}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {json.dumps(PAUSE_IMAGE)}
  # some machines give root no CAP_SYS_RESOURCE, and a sandbox's own score is below what may then be set
  restrict_oom_score_adj = true
  # it would load its profile into the machine's kernel, where nothing takes it out again
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {json.dumps(str(cni_plugins))}
    conf_dir = {json.dumps(str(layout.config / "cni"))}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def cni_configuration(network: Network) -> dict[str, object]:
    """Return the pods' network: each has a point-to-point link to the node, which routes between them.

    Pods share no bridge, so a Service's packets always pass the node's packet filter, whether or not the machine has
    bridge netfilter; and with loopback and its link, the node has no interface that leads anywhere else.
    """
    return {
        "cniVersion": "0.4.0",
        "name": "athanor",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(network.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # in the node's own /run: no address stays taken when the node ends without its pods' teardown
                    "dataDir": "/run/cni/addresses",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def containerd(layout: Layout, network: Network) -> Component:
    """Return containerd as a component.

    Raises:
        FileNotFoundError: containerd or the CNI plugins are not installed (the preflight says so first).
    """
    program, cni_plugins = shutil.which("containerd"), find_cni_plugins()
    if program is None or cni_plugins is None:
        raise FileNotFoundError("containerd or its CNI plugins are not installed")
    text = containerd_configuration(layout, cni_plugins)
    config = configuration_file(layout.config, "containerd.toml", text)
    return Component(
        name="containerd",
        command=(program, f"--config={config}", "--log-level=warn"),
        environment=go_memory(MEMORY_LIMIT_MIB),
        files={
            config: text,
            layout.config / "cni" / "10-athanor.conflist": json.dumps(cni_configuration(network), indent=1),
        },
        address=str(layout.containerd_socket),
        probe=unix_socket_probe(layout.containerd_socket),
    )
