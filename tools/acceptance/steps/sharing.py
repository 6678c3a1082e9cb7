"""The GPU sharing step: a pod that requests a part of a GPU sees only that part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from athanor.inspection.objects import phase_of
from infra.gpu.sharing import GPU_MEMORY_RESOURCE
from infra.node_labels import POOL_LABEL
from infra.offers import GPU_TAINT
from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.steps.gpus import SIMULATED, reports_in, simulated, torch_of
from tools.process import run

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

POD = "acceptance-shared-gpu"
_GIB = 4
_NO_MIG = "ACK has no managed way to split GPUs into MIG instances (infra/gpu/sharing.py)"
_TOLERANCE = 0.15
"""Tolerance between the memory that CUDA reports and the requested one: the driver keeps some of a GPU for itself."""


def sharing(site: Site, findings: Findings) -> None:
    """Run a pod with a part of a GPU's memory on each pool that shares its GPUs.

    Raises:
        SkippedError: no pool with a real node shares its GPUs.
        StepFailedError: a pod did not run, or saw more or less than its part.
    """
    findings.figure("MIG", f"skipped: {_NO_MIG}")
    pools = [pool for pool in site.pools if pool.gpu.sharing]
    if not pools:
        raise SkippedError(f"no GPU pool shares its GPUs; {_NO_MIG}")
    real = [pool for pool in pools if not simulated(site, pool)]
    if not real:
        raise SkippedError("; ".join(f"pool {pool.name}: {SIMULATED}" for pool in pools))
    wrong = [message for pool in real for message in _share(site, findings, pool)]
    if wrong:
        raise StepFailedError("; ".join(wrong))


def _share(site: Site, findings: Findings, pool: NodePoolSettings) -> list[str]:
    name, namespace = f"{POD}-{pool.name}", site.settings.namespace
    manifest = shared_gpu_pod(name, pool.name, str(site.outputs["trainer_image"]))
    kubectl = site.kubectl
    run([*kubectl.prefix, "apply", "-n", namespace, "-f", "-"], stdin=json.dumps(manifest), timeout_seconds=60)
    try:
        phase = site.wait(lambda: _ended(site, name), f"the end of pod {name}", site.patience.job)
        text = kubectl.run("logs", "-n", namespace, name)
        findings.saw(f"kubectl logs -n {namespace} {name}", text)
    finally:
        kubectl.run("delete", "pod", name, "-n", namespace, "--ignore-not-found", "--wait=false")
    seen: list[float] = [gpu["memory_bytes"] / 2**30 for one in reports_in(text) for gpu in torch_of(one)["gpus"]]
    findings.figure(f"pool {pool.name}: asked for {_GIB} GiB, sees", f"{seen} GiB")
    if phase != "Succeeded" or not seen:
        return [f"pool {pool.name}: pod {name} is {phase} and saw {len(seen)} GPUs"]
    if abs(seen[0] - _GIB) > _GIB * _TOLERANCE:
        findings.compare(f"GPU memory that a pod sees on pool {pool.name}", f"{_GIB} GiB", f"{seen[0]:.1f} GiB")
    return []


def _ended(site: Site, name: str) -> str | None:
    pod = json.loads(site.kubectl.run("get", "pod", name, "-n", site.settings.namespace, "-o", "json"))
    phase = phase_of(pod)
    return phase if phase in {"Succeeded", "Failed"} else None


def shared_gpu_pod(name: str, pool: str, image: str) -> Manifest:
    """Return a pod that reports what it sees of its part of a GPU; it fits Pod Security `restricted`."""
    container: Manifest = {
        "name": "main",
        "image": image,
        "command": ["python3", "-m", "trainer.helpers.hardware"],
        "resources": {
            "requests": {"cpu": "1", "memory": "4Gi"},
            "limits": {"memory": "4Gi", GPU_MEMORY_RESOURCE: str(_GIB)},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeSelector": {POOL_LABEL: pool},
            "tolerations": [GPU_TAINT.toleration()],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
