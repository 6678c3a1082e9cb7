"""Rules about containers' rights on their node (Kubernetes, "Pod Security Standards", level `restricted`)."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from policies.resources import containers, pods
from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, Value, each, entries, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_HARMLESS = frozenset({"NET_BIND_SERVICE"})
_SAFE_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
        *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
    }
)
"""Those that level `baseline` allows (Kubernetes 1.34, "Pod Security Standards")."""
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Prefixes of annotations for profiles, which fields replaced in Kubernetes 1.30."""
_SELINUX_TYPES = frozenset({f"container{kind}_t" for kind in ("", "_engine", "_init", "_kvm")})
_OF_THE_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "usr"}
)
_OF_PROGRAMS = (["opt", "cni"], ["opt", "containerd"], *(["var", part] for part in ("cache", "log", "run", "spool")))
_WITH_STATE = frozenset(
    {"calico", "cni", "containerd", "containers", "crio", "dbus", "docker", "dpkg", "etcd", "k0s", "kube-proxy"}
    | {"kubelet", "rancher", "systemd"}
)
"""Folders of /var/lib in which what runs a node keeps programs, credentials or other pods' files."""


def _is_off(value: Value) -> bool:
    return value in (None, False)


def _privileged(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        where = f"container {container.name}: securityContext"
        privileged = read(container.value, "securityContext", "privileged")
        text = message(f"{where}.privileged", privileged, "only false is allowed", "omit it; name the devices it needs")
        yield from demand(privileged, _is_off, text)
        escalation = read(container.value, "securityContext", "allowPrivilegeEscalation")
        text = message(f"{where}.allowPrivilegeEscalation", escalation, "only false is allowed", "set it to false")
        yield from demand(escalation, lambda value: value is False, text)


def _root(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        user, not_root = container.setting("runAsUser"), container.setting("runAsNonRoot")
        where = f"container {container.name}: runAsUser"
        if user is not None:
            text = message(where, user, "root is not allowed", "set securityContext.runAsUser to 1 or higher")
            yield from demand(user, lambda value: value != 0, text)
        else:
            text = message(
                where, None, "the image decides, which may be root", "set securityContext.runAsNonRoot: true"
            )
            yield from demand(not_root, lambda value: value is True, text)


def _capabilities(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        where = f"container {container.name}: securityContext.capabilities"
        for added in each(read(container.value, "securityContext", "capabilities", "add")):
            text = message(f"{where}.add", added, "only NET_BIND_SERVICE is allowed", "omit it")
            yield from demand(added, lambda value: value in _HARMLESS, text)
        dropped = read(container.value, "securityContext", "capabilities", "drop")
        text = message(f"{where}.drop", dropped, "must contain ALL", "set drop: [ALL]")
        yield from demand(dropped, lambda value: "ALL" in each(value), text)


def _host_namespaces(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for pod in pods(resource):
        for key in _HOST_NAMESPACES:
            given = read(pod, key)
            text = message(
                key, given, "pods have namespaces of their own", "omit it; no NetworkPolicy reaches such a pod"
            )
            yield from demand(given, _is_off, text)
            if isinstance(pod, Unknown):
                return
    for container in containers(resource):
        for port in each(read(container.value, "ports")):
            given = read(port, "hostPort")
            text = message(f"container {container.name}: hostPort", given, "no ports of the node", "use a Service")
            yield from demand(given, lambda value: value in (None, 0), text)


def _host_paths(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for pod in pods(resource):
        for volume in each(read(pod, "volumes")):
            path = read(volume, "hostPath", "path")
            field = f"volume {label(read(volume, 'name'))}: hostPath"
            text = message(field, path, "no folders of the node", "use a PersistentVolumeClaim or an emptyDir")
            yield from demand(path, lambda value: value is None, text)
    if resource.kind == "PersistentVolume":
        for field, path in _node_folders(read(resource.properties, "spec")):
            text = message(
                field, path, "is a folder of the node's own system", "use a folder that holds nothing but volumes"
            )
            yield from demand(path, lambda value: not _is_of_the_system(value), text)


def _node_folders(volume: Value) -> Iterator[tuple[str, Value]]:
    """Yield the folders of nodes that a volume may be: its own, and those named to a driver of node's folders."""
    yield "hostPath", read(volume, "hostPath", "path")
    yield "local", read(volume, "local", "path")
    for source, parameters in (("csi", "volumeAttributes"), ("flexVolume", "options")):
        if re.search("host|local", label(read(volume, source, "driver"), "")):
            for key, value in entries(read(volume, source, parameters)).items():
                if key.lower().endswith("path"):
                    yield f"{source}.{parameters}.{key}", value


def _is_of_the_system(path: Value) -> bool:
    """Whether a folder is the root, or one in which every node has programs, settings, devices or credentials."""
    if not isinstance(path, str):
        return False
    parts = [part for part in posixpath.normpath(path).split("/") if part]
    return (
        not parts
        or parts[0] in _OF_THE_SYSTEM
        or any(part.startswith(".") for part in parts)  # .ssh, .kube
        or parts in (["home"], ["opt"], ["var"], ["var", "lib"])
        or parts[:2] in _OF_PROGRAMS
        or (parts[:2] == ["var", "lib"] and parts[2] in _WITH_STATE)
    )


def _tokens(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for pod in pods(resource):
        account = read(pod, "serviceAccountName")
        if account in (None, "default"):
            given = read(pod, "automountServiceAccountToken")
            text = message(
                "automountServiceAccountToken",
                given,
                "pods of the default service account get no token",
                "set it to false, or name a service account with the rights that the pod needs",
            )
            yield from demand(given, lambda value: value is False, text)
        elif isinstance(account, Unknown):
            yield account


def _apparmor_annotations(value: Value) -> Iterator[Value]:
    """Yield the profiles that annotations of pods name, wherever an object keeps its pods."""
    if isinstance(value, list):
        for item in value:
            yield from _apparmor_annotations(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key.startswith(_APPARMOR):
                yield item
            else:
                yield from _apparmor_annotations(item)


def _unconfined(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for given in _apparmor_annotations(resource.properties):
        text = message(f"annotation {_APPARMOR}…", given, "unconfined is not allowed", "omit it")
        yield from demand(given, lambda value: value != "unconfined", text)
    for pod in pods(resource):
        for sysctl in each(read(pod, "securityContext", "sysctls")):
            name = read(sysctl, "name")
            text = message("securityContext.sysctls", name, "is not a sysctl that stays within the pod", "omit it")
            yield from demand(name, lambda value: value in _SAFE_SYSCTLS, text)
    for container in containers(resource):
        selinux = read(container.setting("seLinuxOptions"), "type")
        text = message(
            f"container {container.name}: securityContext.seLinuxOptions.type",
            selinux,
            "is not a container's",
            "omit it",
        )
        yield from demand(selinux, lambda value: value in (None, "") or value in _SELINUX_TYPES, text)
        mount = read(container.value, "securityContext", "procMount")
        text = message(
            f"container {container.name}: securityContext.procMount", mount, "Unmasked is not allowed", "omit it"
        )
        yield from demand(mount, lambda value: value in (None, "Default"), text)
        for key in ("seccompProfile", "appArmorProfile"):
            given = read(container.setting(key), "type")
            field = f"container {container.name}: securityContext.{key}.type"
            text = message(field, given, "Unconfined is not allowed", "use RuntimeDefault")
            yield from demand(given, lambda value: value != "Unconfined", text)


RULES = (
    Rule(
        name="no-privileged-containers",
        demand="Containers are not privileged and cannot gain privileges.",
        severity="critical",
        config=RuleConfig,
        check=_privileged,
    ),
    Rule(
        name="no-root-containers",
        demand="Containers run as a user other than root.",
        severity="high",
        config=RuleConfig,
        check=_root,
    ),
    Rule(
        name="no-added-capabilities",
        demand="Containers drop all capabilities and add none but NET_BIND_SERVICE.",
        severity="high",
        config=RuleConfig,
        check=_capabilities,
    ),
    Rule(
        name="no-host-namespaces",
        demand="Pods use neither the network, processes and IPC of their node nor its ports.",
        severity="high",
        config=RuleConfig,
        check=_host_namespaces,
    ),
    Rule(
        name="no-host-paths",
        demand="Pods mount no folder of their node, and volumes none of its system.",
        severity="critical",
        config=RuleConfig,
        check=_host_paths,
    ),
    Rule(
        name="no-default-service-account-token",
        demand="Pods of the default service account mount no token of the API server.",
        severity="medium",
        config=RuleConfig,
        check=_tokens,
    ),
    Rule(
        name="no-unconfined-containers",
        demand="No pod turns off seccomp or AppArmor, uncovers /proc, or sets a sysctl of the node.",
        severity="high",
        config=RuleConfig,
        check=_unconfined,
    ),
)
