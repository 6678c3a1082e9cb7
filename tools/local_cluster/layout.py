"""Names and paths of a local cluster: every path, interface, cgroup and address derives from its name and home."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network
    from pathlib import Path

NAME_PATTERN = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
BLOCK_PREFIX_LENGTH = 18
API_SERVER_PORT = 6443
STATE_FILE = "state.json"


@dataclass(frozen=True)
class Network:
    """The addresses of a cluster, all cut from one private block (a /18)."""

    block: IPv4Network

    @property
    def host(self) -> IPv4Address:
        """Address of this machine's end of the link to the node."""
        return self.block[1]

    @property
    def node(self) -> IPv4Address:
        """Address of the node's end of the link: its InternalIP, where the API server answers."""
        return self.block[2]

    @property
    def link_prefix_length(self) -> int:
        """Prefix length of the link between this machine and the node."""
        return 30

    @cached_property
    def pods(self) -> IPv4Network:
        """Addresses of the pods that really run."""
        return self._subnet(23, index=1)

    @cached_property
    def services(self) -> IPv4Network:
        """Virtual addresses of Services."""
        return self._subnet(20, index=1)

    @cached_property
    def simulated_pods(self) -> IPv4Network:
        """Addresses that pods on simulated nodes get in their status; nothing answers there."""
        return self._subnet(19, index=1)

    @property
    def api_service(self) -> IPv4Address:
        """Address of the Service kubernetes.default."""
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        """Address of the cluster's DNS Service."""
        return self.services[10]

    def _subnet(self, prefix_length: int, *, index: int) -> IPv4Network:
        return next(islice(self.block.subnets(new_prefix=prefix_length), index, None))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of one cluster's files. `down` removes `folder` whole."""

    name: str
    folder: Path

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name):
            limit = "must have at most 30 characters of a-z, 0-9 and '-', start with a letter and not end in '-'"
            raise RefusalError("cluster name", self.name, limit, "choose such a name")

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(str(self.folder).encode()).hexdigest()

    @property
    def node_name(self) -> str:
        """Name of the one real node."""
        return f"{self.name}-node-0"

    @property
    def context(self) -> str:
        """Name of the kubeconfig's context."""
        return f"athanor-{self.name}"

    @property
    def interface(self) -> str:
        """This machine's end of the link to the node (an interface name has at most 15 characters)."""
        return f"ath-{self.name[:5].rstrip('-')}-{self._digest[:5]}"

    @property
    def cgroup(self) -> str:
        """Name of the cgroup, below the root of each hierarchy, that holds everything the cluster runs."""
        return f"athanor-{self.name}-{self._digest[:8]}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One log file per component."""
        return self.folder / "logs"

    @property
    def state_file(self) -> Path:
        """File with the state from one `up` to the next."""
        return self.folder / STATE_FILE

    @property
    def node_config(self) -> Path:
        """Configuration of the node's first process; its path in that process's arguments identifies the node."""
        return self.folder / "node.json"

    @property
    def node_files(self) -> Path:
        """Folder of the node's /var/lib (images, containers, pods' volumes) and /var/log."""
        return self.folder / "node"

    @property
    def config(self) -> Path:
        """Configuration files of the components."""
        return self.folder / "config"

    @property
    def kwok(self) -> Path:
        """Folder of kwokctl's files: the control plane's certificates, configuration and etcd data."""
        return self.folder / "kwok"

    @property
    def control_plane(self) -> Path:
        """The cluster's folder inside kwokctl's."""
        return self.kwok / "clusters" / self.name

    @property
    def pki(self) -> Path:
        """Certificate authority and administrator's certificate, which kwokctl creates."""
        return self.control_plane / "pki"

    @property
    def containerd_socket(self) -> Path:
        """Socket of the node's containerd, also to programs outside the node."""
        return self.folder / "containerd.sock"
