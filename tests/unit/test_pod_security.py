"""The checker of pod specs must refuse what the API server refuses."""

from __future__ import annotations

import copy
from typing import Any

from tests.pod_security import pod_specs, violations
from tests.tables import each_row

_GOOD: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "volumes": [{"name": "tmp", "emptyDir": {}}],
}


def _changed(path: str, value: object) -> dict[str, Any]:
    pod = copy.deepcopy(_GOOD)
    *parents, last = path.split(".")
    node: Any = pod
    for part in parents:
        node = node[int(part)] if part.isdigit() else node.setdefault(part, {})
    node[last] = value
    return pod


def test_a_good_pod_is_admitted():
    assert violations(_GOOD) == []


@each_row(
    ("path", "value", "word"),
    [
        ("hostNetwork", True, "hostNetwork"),
        ("hostPID", True, "hostPID"),
        ("hostIPC", True, "hostIPC"),
        ("securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}], "sysctl"),
        ("volumes", [{"name": "root", "hostPath": {"path": "/"}}], "hostPath"),
        ("volumes", [{"name": "share", "nfs": {"server": "a", "path": "/"}}], "nfs"),
        ("securityContext.runAsNonRoot", False, "runAsNonRoot"),
        ("securityContext.runAsUser", 0, "user 0"),
        ("securityContext.seccompProfile", {"type": "Unconfined"}, "seccomp"),
        ("securityContext.seccompProfile", None, "no seccomp"),
        ("securityContext.seLinuxOptions", {"type": "spc_t"}, "SELinux"),
        ("securityContext.appArmorProfile", {"type": "Unconfined"}, "AppArmor"),
        ("containers.0.securityContext.privileged", True, "privileged"),
        ("containers.0.securityContext.allowPrivilegeEscalation", None, "escalate"),
        ("containers.0.securityContext.runAsNonRoot", False, "root"),
        ("containers.0.securityContext.runAsUser", 0, "user 0"),
        ("containers.0.securityContext.capabilities", {}, "keeps capabilities"),
        ("containers.0.securityContext.capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "adds capabilities"),
        ("containers.0.securityContext.procMount", "Unmasked", "/proc"),
        ("containers.0.ports", [{"containerPort": 80, "hostPort": 80}], "port of the host"),
        ("initContainers", [{"name": "early"}], "container early"),
    ],
)
def test_what_the_level_forbids_is_found(path, value, word):
    assert any(word in text for text in violations(_changed(path, value)))


def test_pods_are_found_wherever_a_kind_keeps_them():
    job = {"spec": {"tasks": [{"template": {"spec": _GOOD}}, {"template": {"spec": _GOOD}}]}}
    assert len(list(pod_specs(job))) == 2
    assert len(list(pod_specs({"spec": {"template": {"spec": _GOOD}}}))) == 1
