"""Objects in the shapes of Kubernetes 1.34 and Volcano 1.14, as the API server returns them, less what nobody reads."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from athanor.inspection.case import Case
from athanor.inspection.commands import MAKE, Commands
from athanor.inspection.objects import Object, Snapshot
from athanor.inspection.why import why

NOW = datetime(2026, 11, 21, 12, 30, 5, tzinfo=UTC)
NAMESPACE = "athanor"
CREATED = "2026-11-21T10:00:00Z"
POOL = "athanor.dev/pool"


def pod_spec(*, image: str = "localhost/athanor/trainer:1", pool: str | None = "a10", **requests: object) -> Object:
    """A worker's spec; requests by resource name."""
    asked = {"cpu": "1", "memory": "1Gi", **{key: str(value) for key, value in requests.items()}}
    return {
        "schedulerName": "volcano",
        "containers": [{"name": "worker", "image": image, "resources": {"requests": asked}}],
        **({"nodeSelector": {POOL: pool}} if pool else {}),
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "training-data"}}],
    }


def gpu_spec(gpus: int, **more: Any) -> Object:
    """A worker's spec that asks for whole GPUs."""
    return pod_spec(**{"nvidia.com/gpu": gpus}, **more)


def task(name: str, replicas: int, spec: Object, **more: object) -> Object:
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(name: str = "my-run", *tasks: Object, phase: str = "Pending", queue: str = "training", **more: Any) -> Object:
    """A Volcano Job as our classes make it, with its status."""
    roles = list(tasks) or [task("worker", 2, gpu_spec(8))]
    spec = {
        "queue": queue,
        "minAvailable": sum(each["replicas"] for each in roles),
        "maxRetry": 11,
        "tasks": roles,
        **more.pop("spec", {}),
    }
    status = {"state": {"phase": phase, "lastTransitionTime": "2026-11-21T10:05:00Z"}, **more.pop("status", {})}
    return {
        "metadata": {
            "name": f"{name}-0a1b2c3d",
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "creationTimestamp": more.pop("created", CREATED),
            "labels": {
                "athanor.dev/job": name,
                "athanor.dev/kind": "PyTorchJob",
                "athanor.dev/owner": more.pop("owner", f"athanor-runs-{name}-0a1b2c3d"),
            },
            **more,
        },
        "spec": spec,
        "status": status if phase else {},
    }


def group(of: Object, phase: str = "Inqueue", *, created: str | None = None, message: str = "") -> Object:
    """The PodGroup that Volcano's job controller creates for a job."""
    conditions = [
        {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "lastTransitionTime": "2026-11-21T10:06:00Z",
            "message": message,
        }
    ]
    return {
        "metadata": {
            "name": f"{of['metadata']['name']}-{of['metadata']['uid']}",
            "namespace": NAMESPACE,
            "uid": f"group-{of['metadata']['uid']}",
            "creationTimestamp": created or of["metadata"]["creationTimestamp"],
            "ownerReferences": [{"kind": "Job", "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}],
        },
        "spec": {
            "minMember": of["spec"]["minAvailable"],
            "queue": of["spec"]["queue"],
            "priorityClassName": of["spec"].get("priorityClassName", ""),
        },
        "status": {"phase": phase, "conditions": conditions if message else []},
    }


def pod(of: Object, role: str = "worker", index: int = 0, *, node: str = "", phase: str = "", **status: Any) -> Object:
    """One of a job's pods, with the marks that Volcano writes."""
    spec = next(each["template"]["spec"] for each in of["spec"]["tasks"] if each["name"] == role)
    name = of["metadata"]["name"]
    marks = {"volcano.sh/job-name": name, "volcano.sh/task-spec": role, "volcano.sh/queue-name": of["spec"]["queue"]}
    return {
        "metadata": {
            "name": f"{name}-{role}-{index}",
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}-{role}-{index}",
            "labels": {**marks, "athanor.dev/job": of["metadata"]["labels"]["athanor.dev/job"]},
            "annotations": marks,
        },
        "spec": {**spec, **({"nodeName": node} if node else {})},
        "status": {"phase": phase or ("Running" if node else "Pending"), **status},
    }


def pods(of: Object, node: str = "", **more: Any) -> list[Object]:
    """All pods of a job, alike."""
    return [
        pod(of, each["name"], index, node=node, **more)
        for each in of["spec"]["tasks"]
        for index in range(each["replicas"])
    ]


def unplaced(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    """The status of a pod for which Volcano found no node."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


def container(name: str = "worker", *, image: str = "localhost/athanor/trainer:1", restarts: int = 0, **state: Any):
    """One entry of containerStatuses; `waiting=`, `running=` or `terminated=`, and `last=` for the time before."""
    last = {"terminated": state.pop("last")} if "last" in state else {}
    return {"name": name, "image": image, "restartCount": restarts, "state": state, "lastState": last}


def node(
    name: str, pool: str = "a10", *, taints: list[Object] | None = None, ready: bool = True, **has: object
) -> Object:
    return {
        "metadata": {"name": name, "labels": {POOL: pool, "kubernetes.io/hostname": name}},
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", **{k: str(v) for k, v in has.items()}},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def gpu_node(name: str, gpus: int = 8, **more: Any) -> Object:
    return node(name, **{"nvidia.com/gpu": gpus}, **more)


def queue(name: str = "training", *, state: str = "Open", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"weight": 1, **spec}, "status": {"state": state, "allocated": {}}}


def claim(name: str = "training-data", phase: str = "Bound") -> Object:
    return {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"}, "status": {"phase": phase}}


def priority_class(name: str, value: int, **more: object) -> Object:
    return {"metadata": {"name": name}, "value": value, **more}


def event(about: Object, reason: str, message: str, at: str = "2026-11-21T10:07:00Z") -> Object:
    metadata = about["metadata"]
    return {
        "involvedObject": {"name": metadata["name"], "uid": metadata["uid"]},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def snapshot(**fields: Any) -> Snapshot:
    """A cluster with a queue and the claim that every pod mounts, unless a test says otherwise."""
    return Snapshot(
        **{"namespace": NAMESPACE, "queues": [queue()], "claims": [claim()], "nodes": [gpu_node("a10-0")], **fields}
    )


def case(of: Object, *, local: bool = True, commands: Commands = MAKE, **fields: Any) -> Case:
    """The case of a job whose PodGroup exists."""
    jobs = [of, *fields.pop("jobs", [])]
    groups = fields.pop("pod_groups", [group(of)])
    return Case(snapshot=snapshot(jobs=jobs, pod_groups=groups, **fields), job=of, local=local, commands=commands)


def sentence_about(situation: Case, cause: str) -> str:
    """The sentence about a case, whose cause must be the one that a test expects."""
    finding = why(situation)
    assert finding.cause == cause, finding.sentence
    assert finding.next_step
    return finding.sentence


def drawn(tables) -> str:
    """Return what a person reads of some tables."""
    screen = io.StringIO()
    console = Console(file=screen, width=160, highlight=False)
    for each in tables:
        console.print(each)
    return screen.getvalue()
