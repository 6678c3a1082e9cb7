"""The node's first process: creates the namespaces of the cluster, then reaps orphans and limits the size of logs.

The node is to this machine what a container is to its host. All processes, mounts, sockets and packet filter rules of
the cluster are in the node's own PID, mount, network, UTS and IPC namespaces, and end with this process: the kernel
then kills the processes and drops mounts, interfaces and rules. Nothing can be left behind.

Run as a file with `python -I -S node_init.py <node.json>`, so it imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

# <linux/sched.h>
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x20000000,
    0x40000000,
)
HOUSEKEEPING_SECONDS = 20.0
READY_FILE = "/run/athanor-node-ready"


class NodeConfig(TypedDict):
    """The content of `node.json`."""

    hostname: str
    replaced_folders: dict[str, str]
    """Folders of the machine that the node sees another folder in the place of."""
    kept_folders: list[str]
    """Folders that stay visible even where they lie in a replaced one."""
    kernel_settings: dict[str, str]
    """Machine-wide kernel settings (below /proc/sys) that the node sees with these values; the machine's own stay."""
    network_settings: dict[str, str]
    """Kernel settings (below /proc/sys) of the node's own network namespace."""
    logs: str
    log_limit_bytes: int


def main() -> None:
    """Become the first process of a new node."""
    config: NodeConfig = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: the node's namespaces cannot be created")
    if os.fork() != 0:
        # a PID namespace begins with the next child; this process stays outside and is not needed any more
        return
    os.setsid()
    socket.sethostname(config["hostname"])
    mount_node_view(config)
    _run("ip", "link", "set", "lo", "up")
    for name, value in config["network_settings"].items():
        Path("/proc/sys", name).write_text(value)
    Path(READY_FILE).touch()
    keep_house(Path(config["logs"]), config["log_limit_bytes"])


def mount_node_view(config: NodeConfig) -> None:
    """Give the node its own /run, /proc, /var/lib and /var/log; the rest is the machine's file system."""
    # slave: what the machine unmounts goes here too; shared: pods may ask for mount propagation inside the node
    _run("mount", "--make-rslave", "/")
    _run("mount", "--make-rshared", "/")
    kept = {path: os.open(path, os.O_PATH) for path in config["kept_folders"]}
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "-t", "tmpfs", "-o", "mode=755,size=25%", "tmpfs", "/run")
    for target, source in config["replaced_folders"].items():
        Path(source).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", source, target)
    for path, handle in kept.items():
        if not _is_same_folder(path, handle):
            Path(path).mkdir(parents=True, exist_ok=True)
            _run("mount", "--rbind", f"/proc/self/fd/{handle}", path, keep=handle)
        os.close(handle)
    # The kubelet insists on its own values of a few machine-wide settings and would change the machine's. It reads and
    # writes these files instead, and finds them as it wants them.
    settings = Path("/run/athanor-kernel-settings")
    for name, value in config["kernel_settings"].items():
        stand_in = settings / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(f"{value}\n")
        _run("mount", "--bind", stand_in, f"/proc/sys/{name}")


def keep_house(logs: Path, log_limit_bytes: int) -> None:
    """Reap every orphan, which a node's first process inherits, and cut logs that grew too long; never returns."""
    # blocked, the signal waits to be asked for instead of being dropped
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, HOUSEKEEPING_SECONDS)
        reap_children()
        bound_logs(logs, log_limit_bytes)


def reap_children() -> None:
    """Collect the exit status of every child that has ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def bound_logs(folder: Path, limit_bytes: int) -> None:
    """Move the content of too long logs to `<name>.log.1`; their writers append, so truncating under them is safe."""
    for log in folder.glob("*.log"):
        if log.stat().st_size > limit_bytes:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


def _is_same_folder(path: str, handle: int) -> bool:
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _run(*command: str | Path, keep: int | None = None) -> None:
    subprocess.run(command, check=True, pass_fds=() if keep is None else (keep,))


if __name__ == "__main__":
    main()
