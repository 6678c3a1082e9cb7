"""The Pod Security Standard `restricted` as a check of pod specs: what the API server enforces, before it has to.

Source: kubernetes.io, "Pod Security Standards" (policies Baseline and Restricted), for Linux pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]

_VOLUME_SOURCES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}  # fmt: skip
_SECCOMP = {"RuntimeDefault", "Localhost"}
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}


def pod_specs(node: Any) -> Iterator[Node]:
    """Yield every pod spec inside a manifest, wherever its kind keeps it."""
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for item in node:
            yield from pod_specs(item)


def all_containers(pod: Node) -> list[Node]:
    """The containers of a pod spec, of every sort."""
    return [c for key in ("initContainers", "containers", "ephemeralContainers") for c in pod.get(key) or []]


def violations(pod: Node) -> list[str]:
    """Return what the level `restricted` would refuse about a pod spec, empty if it is admitted."""
    problems = [*_host_access(pod), *_volumes(pod), *_security_context("pod", pod.get("securityContext") or {})]
    for container in all_containers(pod):
        problems += _container(container, pod.get("securityContext") or {})
    return problems


def _host_access(pod: Node) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield f"{key} is true"
    for sysctl in (pod.get("securityContext") or {}).get("sysctls") or []:
        if sysctl["name"] not in _SAFE_SYSCTLS:
            yield f"sysctl {sysctl['name']} is unsafe"


def _volumes(pod: Node) -> Iterator[str]:
    for volume in pod.get("volumes") or []:
        sources = set(volume) - {"name"}
        if not sources <= _VOLUME_SOURCES:
            yield f"volume {volume['name']} is of type {', '.join(sorted(sources - _VOLUME_SOURCES))}"


def _security_context(where: str, context: Node) -> Iterator[str]:
    if context.get("runAsUser") == 0:
        yield f"{where} runs as user 0"
    if context.get("runAsNonRoot") is False:
        yield f"{where} sets runAsNonRoot to false"
    seccomp = context.get("seccompProfile")
    if seccomp is not None and seccomp.get("type") not in _SECCOMP:
        yield f"{where} has seccomp profile {seccomp.get('type')}"
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{where} sets SELinux options"
    if (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in _SECCOMP:
        yield f"{where} switches AppArmor off"


def _container(container: Node, pod_context: Node) -> Iterator[str]:
    where = f"container {container['name']}"
    context = container.get("securityContext") or {}
    yield from _security_context(where, context)
    if context.get("privileged"):
        yield f"{where} is privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{where} may escalate privileges"
    if {**pod_context, **context}.get("runAsNonRoot") is not True:
        yield f"{where} may run as root"
    if not {**pod_context, **context}.get("seccompProfile"):
        yield f"{where} has no seccomp profile"
    capabilities = context.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or []):
        yield f"{where} keeps capabilities"
    if not set(capabilities.get("add") or []) <= {"NET_BIND_SERVICE"}:
        yield f"{where} adds capabilities"
    if context.get("procMount", "Default") != "Default":
        yield f"{where} sees all of /proc"
    if any(port.get("hostPort") for port in container.get("ports") or []):
        yield f"{where} takes a port of the host"
