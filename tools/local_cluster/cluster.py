"""Start, status, stop and removal of a local cluster."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tools.images.platform_images import ensure_platform_images
from tools.local_cluster import (
    cgroups,
    container_runtime,
    control_plane,
    dns,
    kube_proxy,
    kubeconfig,
    kubelet,
    leftovers,
    network,
    preflight,
    startup,
    state,
)
from tools.local_cluster.errors import ClusterError
from tools.local_cluster.layout import Layout
from tools.local_cluster.node import Node
from tools.paths import REPOSITORY, paths
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from tools.local_cluster.component import Component
    from tools.local_cluster.layout import Network
    from tools.local_cluster.processes import Process
    from tools.progress import Progress


@contextmanager
def exclusive(folder: Path) -> Generator[None]:
    """Hold the folder's lock while the block runs, waiting for it; the kernel frees it when its holder is killed."""
    handle = _acquire(folder)
    try:
        yield
    finally:
        os.close(handle)


def _acquire(folder: Path) -> int:
    file = folder / "lock"
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # a `down` removed the folder just now
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # the `down` that was waited for removed this file: lock the new one


_TOOLS = (*control_plane.TOOLS, "kubelet", "kube-proxy")
PLATFORM_IMAGES = ("pause", "coredns")
NODE_TIMEOUT_SECONDS = 120.0
DNS_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class ComponentStatus:
    """One program of the cluster."""

    name: str
    pid: int | None
    """Its process on this machine; None where it is not running."""
    resident_bytes: int
    healthy: bool
    address: str
    """Its address inside the node."""


@dataclass(frozen=True, kw_only=True)
class ClusterStatus:
    """A cluster at one moment."""

    name: str
    created: bool
    """Whether its control plane has been created."""
    node_ready: bool
    dns_answers: bool
    components: tuple[ComponentStatus, ...]

    @property
    def running(self) -> bool:
        """Whether everything works."""
        return self.node_ready and self.dns_answers and all(component.healthy for component in self.components)


def tools(*, simulates_nodes: bool) -> tuple[str, ...]:
    """Return the names of the tools that a cluster consists of."""
    return (*_TOOLS, control_plane.SIMULATOR) if simulates_nodes else _TOOLS


class LocalCluster:
    """A Kubernetes cluster on this machine: kwokctl's control plane and one node that runs real pods.

    Everything lives in namespaces of its own (see `node_init`): this machine gets one network interface and one route
    from it, and a cgroup. Clusters of different names or homes run side by side.

    Args:
        name: the cluster's name, part of the names of its node and kubeconfig context.
        home: folder of all clusters; the cluster's own is `home/name`. Default: athanor's home folder.
        requirements: room that must be free before it is started.
        simulates_nodes: whether nodes of its API that stand for no machine become Ready, and pods on them run.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        home: Path | None = None,
        requirements: preflight.Requirements | None = None,
        simulates_nodes: bool = True,
    ) -> None:
        folder = (home or paths().home).resolve() / name
        self.layout = Layout(name=name, folder=folder)
        self._requirements = requirements or preflight.Requirements()
        self._tools = tools(simulates_nodes=simulates_nodes)
        self._node = Node(self.layout, visible_folders=(paths().cache, REPOSITORY))

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.layout.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it exists once the cluster has been up."""
        return self.layout.kubeconfig

    @property
    def context(self) -> str:
        """Name of the kubeconfig's context."""
        return self.layout.context

    @property
    def node_name(self) -> str:
        """Name of the node that runs real pods."""
        return self.layout.node_name

    @property
    def containerd_socket(self) -> Path:
        """Socket of the node's containerd; its images are in the namespace k8s.io."""
        return self.layout.containerd_socket

    @property
    def is_created(self) -> bool:
        """Whether its control plane has been created, running or not."""
        return self._created() is not None

    def _created(self) -> state.State | None:
        """Return the stored state of the cluster; None before its control plane has been created."""
        stored = state.load(self.layout.state_file)
        return stored if stored is not None and stored.control_plane is not None else None

    def preflight(self) -> list[preflight.Failure]:
        """Return the requirements that this machine does not meet; changes nothing."""
        return preflight.check(self.layout, self._requirements)

    def up(self, report: Progress) -> None:
        """Make the cluster run: create it, start it, or repair broken parts; its content is kept.

        Raises:
            PreflightError: this machine lacks something; nothing was changed.
            StartError: something did not come up.
            tools.process.CommandError: a tool could not be built, or a program that was run failed.
        """
        with exclusive(self.layout.folder):
            if self._node.init() is not None and self._is_up_to_date(ensure(self._tools, report)):
                return
            failures = self.preflight()
            if failures:
                if not self.layout.state_file.exists():
                    shutil.rmtree(self.layout.folder)
                raise preflight.PreflightError(failures)
            self._bring_up(ensure(self._tools, report), report)

    def start_runtime(self, report: Progress) -> None:
        """Start the node and its container runtime, which need no tool: images can be loaded while tools are built.

        Raises:
            StartError: the runtime did not come up.
            tools.process.CommandError: a program that was run failed.
        """
        with exclusive(self.layout.folder):
            self._start_runtime(self._prepare_folder().network, report)

    def _start_runtime(self, addresses: Network, report: Progress) -> None:
        report.detail("starting the node")
        self._node.boot()
        network.connect(self._node, addresses)
        startup.bring_up(self._node, [container_runtime.containerd(self.layout, addresses)])

    def _is_up_to_date(self, binaries: Mapping[str, Path]) -> bool:
        stored = state.load(self.layout.state_file)
        if stored is None or stored.configuration != self._configuration_digest(stored, binaries):
            return False
        return self.status().running

    def _bring_up(self, binaries: Mapping[str, Path], report: Progress) -> None:
        stored = replace(self._prepare_folder(), binaries={tool: str(binaries[tool]) for tool in self._tools})
        state.save(self.layout.state_file, stored)
        addresses = stored.network
        self._start_runtime(addresses, report)
        control_plane.issue_certificates(self.layout)
        control_plane.ensure_created(self._node, addresses, binaries, report)
        kubelet.issue_certificates(self.layout, addresses)
        kube_proxy.issue_certificates(self.layout, addresses)
        kubeconfig.write(
            self.kubeconfig,
            kubeconfig.for_identity(self.layout, addresses, control_plane.administrator(self.layout)),
        )
        first, rest = self._components(addresses, binaries)
        report.detail("starting the control plane")
        self._end_api_server_without_database(first)
        startup.bring_up(self._node, first)
        ensure_platform_images(self.containerd_socket, PLATFORM_IMAGES, report)
        report.detail("starting the kubelet")
        startup.bring_up(self._node, rest)
        dns.apply(control_plane.api_client(self.layout, addresses), self.layout, addresses)
        self._await_node_and_dns(addresses, report)
        stored = state.load(self.layout.state_file) or stored
        state.save(self.layout.state_file, replace(stored, configuration=self._configuration_digest(stored, binaries)))

    def _prepare_folder(self) -> state.State:
        for folder in (paths().cache, self.layout.config):
            folder.mkdir(parents=True, exist_ok=True)
        stored = state.load(self.layout.state_file)
        if stored is None:
            used = [*network.used_networks(), *network.blocks_of_siblings(self.layout)]
            stored = state.State(block=str(network.choose_block(self.layout, used)))
            state.save(self.layout.state_file, stored)
        return stored

    def _components(self, addresses: Network, binaries: Mapping[str, Path]) -> tuple[list[Component], list[Component]]:
        """Return the components that must work first (etcd, API server, containerd), and those that need them."""
        first: list[Component] = []
        rest: list[Component] = []
        for component in control_plane.components(self.layout):
            (first if component.name in {"etcd", "kube-apiserver"} else rest).append(component)
        first.append(container_runtime.containerd(self.layout, addresses))
        rest.append(kubelet.kubelet(self.layout, addresses, binaries["kubelet"]))
        rest.append(kube_proxy.kube_proxy(self.layout, addresses, binaries["kube-proxy"]))
        return first, rest

    def _end_api_server_without_database(self, first: list[Component]) -> None:
        """End an API server whose etcd has ended, so that it starts afresh, in seconds.

        Each of its many connections to etcd is tried again by itself, at growing intervals: it could call itself ready
        and answer requests for single kinds of objects with 504 for a minute.
        """
        by_name = {component.name: component for component in first}
        if by_name["etcd"].process(self._node) is None:
            by_name["kube-apiserver"].end(self._node)

    def _configuration_digest(self, stored: state.State, binaries: Mapping[str, Path]) -> str:
        """Return a digest that changes whenever `up` would configure a running cluster differently."""
        first, rest = self._components(stored.network, binaries)
        configuration = [
            control_plane.kwokctl_configuration(self.layout, stored.network, binaries),
            dns.manifests(self.layout, stored.network),
            [[component.command, dict(component.environment)] for component in (*first, *rest)],
            [sorted(component.files.values()) for component in (*first, *rest)],
        ]
        return state.digest(configuration)

    def _await_node_and_dns(self, addresses: Network, report: Progress) -> None:
        report.detail("waiting for the node and DNS")
        log = self.layout.logs / "kubelet.log"
        startup.await_condition(
            f"node {self.node_name} is not Ready",
            lambda: self._is_node_ready(addresses),
            timeout_seconds=NODE_TIMEOUT_SECONDS,
            log=log,
        )
        startup.await_condition(
            "the cluster's DNS does not answer",
            lambda: self._is_dns_ready(addresses) and dns.is_answering(addresses),
            timeout_seconds=DNS_TIMEOUT_SECONDS,
            log=log,
        )

    def _is_node_ready(self, addresses: Network) -> bool:
        process = self._node.component_process("kubelet")
        return process is not None and startup.is_node_ready(
            control_plane.api_client(self.layout, addresses), self.node_name, startup.started_at(process)
        )

    def _is_dns_ready(self, addresses: Network) -> bool:
        init = self._node.init()
        return init is not None and dns.is_server_ready(
            control_plane.api_client(self.layout, addresses), startup.started_at(init)
        )

    def status(self) -> ClusterStatus:
        """Return how the cluster is now; changes nothing."""
        stored = self._created()
        if stored is None:
            return ClusterStatus(name=self.name, created=False, node_ready=False, dns_answers=False, components=())
        binaries = {tool: Path(binary) for tool, binary in stored.binaries.items()}
        first, rest = self._components(stored.network, binaries)
        started = self._node.started()
        components = tuple(self._component_status(component, started) for component in (*first, *rest))
        # asking an API server that is not well, or has no database, only means to wait for a timeout
        healthy = {component.name for component in components if component.healthy}
        return ClusterStatus(
            name=self.name,
            created=True,
            node_ready={"etcd", "kube-apiserver"} <= healthy and self._is_node_ready(stored.network),
            dns_answers="kube-proxy" in healthy and dns.is_answering(stored.network),
            components=components,
        )

    def _component_status(self, component: Component, started: Iterable[Process]) -> ComponentStatus:
        process = component.among(started)
        return ComponentStatus(
            name=component.name,
            pid=process.pid if process else None,
            resident_bytes=process.resident_bytes if process else 0,
            healthy=process is not None and component.probe(self._node),
            address=component.address,
        )

    def stop(self, report: Progress) -> None:
        """End everything that runs, giving pods 10 s to finish; what the cluster holds is kept for the next `up`."""
        if not self.layout.folder.exists():
            return
        with exclusive(self.layout.folder):
            if self._node.init() is not None:
                report.detail("stopping pods, then the cluster")
                self._node.shut_down()
            self._release_machine()

    def down(self, report: Progress) -> None:
        """Remove everything of the cluster from this machine, in whatever state it is.

        Raises:
            ClusterError: something is mounted in the cluster's folder that removing it would reach into.
        """
        mounts = leftovers.mounts_below(self.layout.folder)
        if mounts:
            raise ClusterError(
                f"{mounts[0]} is a mount that this cluster did not create, and its contents would be deleted; "
                f"fix: umount {mounts[0]}"
            )
        with exclusive(self.layout.folder):
            report.detail("removing the cluster")
            self._node.kill()
            self._release_machine()
            # first, so that a removal cut short is not taken for a cluster by the next `up`
            self.layout.state_file.unlink(missing_ok=True)
            shutil.rmtree(self.layout.folder)

    def _release_machine(self) -> None:
        network.disconnect(self.layout)
        cgroups.remove(self.layout.cgroup)

    def leftovers(self) -> list[str]:
        """Return the remains of the cluster on this machine, for people to read; empty after `down`."""
        return leftovers.leftovers(self.layout)
