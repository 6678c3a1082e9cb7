"""The node in namespaces of its own: start, programs in it, inspection, stop."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tools.files import write_atomically
from tools.local_cluster import cgroups, node_init
from tools.local_cluster.errors import ClusterError
from tools.local_cluster.processes import (
    PROC,
    Process,
    all_processes,
    children_of,
    read_process,
    send_signal,
    wait_until_ended,
)
from tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tools.local_cluster.layout import Layout

T = TypeVar("T")

BOOT_TIMEOUT_SECONDS = 20.0
CONTAINER_GRACE_SECONDS = 10.0
COMPONENT_GRACE_SECONDS = 10.0
KILL_TIMEOUT_SECONDS = 20.0
DATABASE_PROGRAMS = ("etcd", "containerd")
"""Programs that are given time to end: they write state. The others' clients and timers would only hold them up."""
LOG_LIMIT_BYTES = 20 * 2**20
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLUSTER_VARIABLE = "ATHANOR_LOCAL_CLUSTER"
"""Environment variable by which a process outside the namespaces can still be recognized as a cluster's."""
COMPONENT_VARIABLE = "ATHANOR_COMPONENT"
"""Environment variable that names the component a process of the node was started as."""

# What the kubelet would otherwise set on the whole machine (k8s.io/component-helpers/node/util/sysctl).
KUBELET_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
NETWORK_SETTINGS = {"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "0"}


@dataclass(frozen=True)
class Node:
    """The namespaces in which the whole cluster lives (see `node_init`)."""

    layout: Layout
    visible_folders: tuple[Path, ...] = field(default=())
    """Folders that programs in the node must see even if they lie under /run, /var/lib or /var/log."""

    _known: list[Process] = field(default_factory=list["Process"], repr=False, compare=False)
    """The first process as it was found, so that not all of this machine's are read again for every question."""

    def init(self) -> Process | None:
        """Return the node's first process, or None where the node is not running."""
        for known in self._known:
            now = read_process(known.pid)
            if now is not None and now.start_ticks == known.start_ticks:
                return now
        inits = (each for each in all_processes() if each.is_namespace_init and self._is_our_init(each.arguments))
        self._known[:] = [process for process in (next(inits, None),) if process]
        return self._known[0] if self._known else None

    def started(self) -> list[Process]:
        """Return the children of the node's first process: the components, not their own children."""
        init = self.init()
        return children_of(init.pid) if init else []

    def _is_our_init(self, arguments: tuple[str, ...]) -> bool:
        match arguments:
            case (*_, program, config):
                return Path(program).name == Path(node_init.__file__).name and config == str(self.layout.node_config)
            case _:
                return False

    def is_booted(self, init: Process) -> bool:
        """Return whether the node has created its mounts and network."""
        return Path(f"{PROC}/{init.pid}/root{node_init.READY_FILE}").exists()

    def boot(self) -> Process:
        """Start the node where it is not running, and return its first process.

        Raises:
            ClusterError: it did not come up; the message holds its log.
        """
        init = self.init()
        if init is not None:
            if self.is_booted(init):
                return init
            self.kill()
        self._write_config()
        self.layout.logs.mkdir(parents=True, exist_ok=True)
        log = self.layout.logs / "node.log"
        with log.open("ab") as output:
            launcher = subprocess.run(
                [sys.executable, "-I", "-S", node_init.__file__, self.layout.node_config],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", CLUSTER_VARIABLE: str(self.layout.folder)},
                start_new_session=True,
            )
        deadline = time.monotonic() + BOOT_TIMEOUT_SECONDS
        while launcher.returncode == 0 and time.monotonic() < deadline:
            init = self.init()
            if init is not None and self.is_booted(init):
                return init
            time.sleep(0.01)
        self.kill()
        raise ClusterError(f"the local cluster's node did not start; {log} ends with:\n{tail(log)}")

    def _write_config(self) -> None:
        files = self.layout.node_files
        config: node_init.NodeConfig = {
            "hostname": self.layout.node_name,
            "replaced_folders": {"/var/lib": str(files / "lib"), "/var/log": str(files / "log")},
            "kept_folders": sorted({str(folder) for folder in (self.layout.folder, *self.visible_folders)}),
            "kernel_settings": {
                name: value for name, value in KUBELET_KERNEL_SETTINGS.items() if (PROC / "sys" / name).exists()
            },
            "network_settings": NETWORK_SETTINGS,
            "logs": str(self.layout.logs),
            "log_limit_bytes": LOG_LIMIT_BYTES,
        }
        write_atomically(self.layout.node_config, json.dumps(config, indent=1))

    def processes(self) -> list[Process]:
        """Return everything that runs in the node, containers included, its first process excluded."""
        init = self.init()
        if init is None:
            return []
        inner = [process for process in all_processes() if len(process.namespace_pids) > 1]
        # a container with a PID namespace of its own has one number more, and its own identity: go by descent
        members = {init.pid}
        while grown := {process.pid for process in inner if process.parent in members} - members:
            members |= grown
        return [process for process in inner if process.pid in members and process.pid != init.pid]

    def component_process(self, component: str) -> Process | None:
        """Return the process that was started in the node as a component, or None."""
        # its children inherit its environment, but only what we start belongs to the node's first process
        ours = (each for each in self.started() if each.environment().get(COMPONENT_VARIABLE) == component)
        return next(ours, None)

    def run(self, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
        """Run a program in the node and in the cluster's cgroup to its end, and return its standard output.

        Raises:
            CommandError: it ended with a non-zero status.
        """
        environment = {CLUSTER_VARIABLE: str(self.layout.folder), **(env or {})}
        words = [*_in_clean_environment(environment), *self._in_cgroup('exec "$@"'), *command]
        return run([*self._enter_command(), *words])

    def spawn(self, command: Sequence[str], *, env: Mapping[str, str], log: Path, component: str) -> None:
        """Start a program in the node that outlives this one, in the cluster's cgroup, appending to its log."""
        environment = {
            "PATH": f"{Path(command[0]).parent}:{SYSTEM_PATH}",
            CLUSTER_VARIABLE: str(self.layout.folder),
            COMPONENT_VARIABLE: component,
            **env,
        }
        script = self._in_cgroup(f'exec "$@" </dev/null >>{shlex.quote(str(log))} 2>&1')
        # `setsid --fork` gives the program to the node's first process, so nothing of ours waits outside the node
        run([*self._enter_command(), *_in_clean_environment(environment), "setsid", "--fork", *script, *command])

    def _enter_command(self) -> list[str]:
        pid = self.boot().pid
        return ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--wd=/", "--"]

    def _in_cgroup(self, then: str) -> list[str]:
        """Return a shell command that joins the cluster's cgroup and then runs its arguments as `then` says.

        Out of the caller's cgroup, the cluster survives the end of the login session that started it.
        """
        joins = "".join(f"echo 0 >{shlex.quote(str(file))}; " for file in cgroups.create(self.layout.cgroup))
        return ["sh", "-c", f"{joins}{then}", "sh"]

    def in_network(self, action: Callable[[], T]) -> T:
        """Call a function with the node's network; sockets that it makes stay in that network."""
        results: list[T] = []
        errors: list[BaseException] = []

        def enter_and_act() -> None:
            try:
                self._enter_network()
                results.append(action())
            except BaseException as error:  # noqa: BLE001 - handed on to the caller's thread below
                errors.append(error)

        # only this one thread changes its network namespace, and ends right afterwards
        thread = threading.Thread(target=enter_and_act)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def _enter_network(self) -> None:
        init = self.init()
        if init is None:
            raise ConnectionRefusedError(f"the node of cluster {self.layout.name!r} is not running")
        handle = os.open(PROC / str(init.pid) / "ns" / "net", os.O_RDONLY)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(handle, node_init.CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns: the node's network namespace cannot be entered")
        finally:
            os.close(handle)

    def shut_down(self) -> None:
        """Stop as a machine does: first containers, then components, each asked before it is killed."""
        init = self.init()
        if init is None:
            return
        # the kubelet goes first and at once, or it would start again what is being stopped
        kubelet = self.component_process("kubelet")
        if kubelet is not None:
            send_signal(kubelet, signal.SIGKILL)
        _terminate([process for process in self.processes() if process.is_namespace_init], CONTAINER_GRACE_SECONDS)
        components = [process for process in self.processes() if process.parent == init.pid]
        databases = [process for process in components if Path(process.arguments[0]).name in DATABASE_PROGRAMS]
        for process in components:
            if process not in databases:
                send_signal(process, signal.SIGKILL)
        _terminate(databases, COMPONENT_GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the node and everything in it at once.

        Raises:
            ClusterError: the kernel has not let go of it after 20 s.
        """
        while (init := self.init()) is not None:
            send_signal(init, signal.SIGKILL)
            if wait_until_ended([init], timeout_seconds=KILL_TIMEOUT_SECONDS):
                raise ClusterError(f"the node's first process, {init.pid}, does not exit (blocked in the kernel?)")


def _in_clean_environment(variables: Mapping[str, str]) -> list[str]:
    # the caller's environment may hold settings (KUBECONFIG, KWOK_…, GODEBUG) that are not meant for the cluster
    settings = {"PATH": SYSTEM_PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **variables}
    return ["env", "--ignore-environment", *(f"{name}={value}" for name, value in settings.items())]


def _terminate(processes: list[Process], grace_seconds: float) -> None:
    for process in processes:
        send_signal(process, signal.SIGTERM)
    for process in wait_until_ended(processes, timeout_seconds=grace_seconds):
        send_signal(process, signal.SIGKILL)


def tail(log: Path, characters: int = 2000) -> str:
    """Return the end of a log; empty where there is none."""
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-characters:]
    except FileNotFoundError:
        return ""
