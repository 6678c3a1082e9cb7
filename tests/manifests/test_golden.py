"""Every object that the program sends to Kubernetes, as files: a diff of them is the blast radius of a change.

`UPDATE_GOLDEN=1 make test-fast` rewrites the files; read their diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pulumi_kubernetes as kubernetes
import pytest
import yaml

from infra.platform import Platform
from tests.manifests.job_kind_cases import JOB_KIND_CASES
from tests.manifests.placement_cases import PLACEMENT_CASES
from tests.manifests.service_cases import SERVICE_CASES
from tests.recording_engine import Recording, record
from tests.unit.infra.alicloud.storage_program import environment
from tools.stacks.engine import stack_config
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.recorded_stack import StackRecorder

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
HOME_MARK = "<home>"
_UNWATCHED = {"monitoring": {"kind": "none"}}
"""What is watched has a case of its own, below."""


def _platform() -> Platform:
    return Platform(
        provider=kubernetes.Provider("cluster", kubeconfig="{}"),
        namespace="team",
        queue="research",
        data_claim="data",
        output_claim="output",
        trainer_image="registry.example/athanor/trainer:0123456789abcdef",
    )


def _gpu_job() -> None:
    args = PyTorchJobArgs(
        program=("-m", "trainer.train", "--num_gpu=8"),
        workers=4,
        processes_per_worker=8,
        resources=Resources(cpu="64", memory="512Gi", gpus=8, shared_memory="64Gi"),
        env={"NCCL_DEBUG": "INFO"},
        priority_class="high",
        grace_period_seconds=300,
        max_restarts=3,
    )
    PyTorchJob("resnet", _platform(), args)


def _queues(record_stack: StackRecorder) -> Recording:
    queues = [
        {"name": "research", "weight": 3, "capability": {"cpu": "64", "nvidia.com/gpu": "16"}},
        {"name": "production", "guaranteed_percent": 25, "maximum_percent": 75, "reclaimable": False},
    ]
    nodes = {"simulated_nodes": [{"instance_type": "ecs.ebmgn8v.48xlarge", "count": 4}]}
    scheduling = {"queues": queues, "quota": {"percent": 100, "resources": {"pods": "500"}}}
    return record_stack({"cluster": nodes, "scheduling": scheduling, "digits": {"workers": 4}})


def _simulated_nodes(record_stack: StackRecorder) -> Recording:
    return record_stack({"cluster": {"simulated_nodes": [{"instance_type": "ecs.ebmgn8v.48xlarge"}]}})


def _alicloud_storage() -> Recording:
    bucket = {"name": "imagenet", "bucket": "team-datasets", "path": "/imagenet"}
    return environment({"oss": [bucket]}, protected=True)


def _gpu_nodes(record_stack: StackRecorder) -> Recording:
    sharing = {"mode": "mps", "replicas": 4}
    gpu = {"device_plugin": True, "dcgm_exporter": True, "sharing": sharing}
    return record_stack({"gpu": gpu, **_UNWATCHED})


def _job_cleanup(record_stack: StackRecorder) -> Recording:
    return record_stack({"clean_up": {"enabled": True}, **_UNWATCHED})


_GATEWAY_KINDS = (
    "ClientTrafficPolicy", "ClusterRole", "Deployment", "EnvoyProxy", "Gateway", "GatewayClass", "Job", "NetworkPolicy",
    "ReferenceGrant", "Role",
)  # fmt: skip


def _gateway(record_stack: StackRecorder) -> Recording:
    gateway = {"enabled": True, "domain": "models.example.com", "replicas": 2}
    quiet = {"digits": {"enabled": False}, "scheduling": {"install": False}}
    return record_stack({"gateway": gateway, **quiet, **_UNWATCHED})


_MONITORING_KINDS = (
    "Alertmanager", "ClusterRole", "DaemonSet", "Deployment", "Namespace", "NetworkPolicy", "PersistentVolume",
    "PodMonitor", "Prometheus", "Role", "Secret", "Service", "ServiceMonitor", "StatefulSet",
)  # fmt: skip
"""Rules and dashboards have tests of their own."""


def _monitoring(record_stack: StackRecorder) -> Recording:
    monitoring = {"grafana": False, "scrape_interval_seconds": 5, "retention_days": 2, "storage": {"size_gib": 2}}
    return record_stack({"digits": {"enabled": False}, "scheduling": {"install": False}, "monitoring": monitoring})


def _monitoring_in_the_cloud(record_stack: StackRecorder) -> Recording:
    return record_stack(stack_config("prod"), stack="prod")


CASES: dict[str, tuple[Callable[[StackRecorder], Recording], tuple[str, ...]]] = {
    # name: how it is recorded, which kinds are kept (all if none is named)
    "local": (lambda record_stack: record_stack(_UNWATCHED), ()),
    "gpu-job": (lambda _: record(_gpu_job, preview=False), ()),
    "queues": (_queues, ("Queue", "Job", "HyperNode", "ResourceQuota")),
    "simulated-nodes": (_simulated_nodes, ("Node",)),
    "gpu-nodes": (_gpu_nodes, ("DaemonSet",)),
    "job-cleanup": (_job_cleanup, ("CronJob", "Role", "RoleBinding")),
    **PLACEMENT_CASES,
    **JOB_KIND_CASES,
    **SERVICE_CASES,
    "monitoring": (_monitoring, _MONITORING_KINDS),
    "monitoring-cloud": (_monitoring_in_the_cloud, ("Alertmanager", "PodMonitor", "Prometheus", "StatefulSet")),
    "gateway": (_gateway, _GATEWAY_KINDS),
    "alicloud-storage": (lambda _: _alicloud_storage(), ("PersistentVolume", "PersistentVolumeClaim", "StorageClass")),
}


@pytest.fixture(params=CASES, scope="module")
def case(request, record_stack) -> tuple[str, Recording]:
    recorded, _ = CASES[request.param]
    return request.param, recorded(record_stack)


def _rendered(name: str, recording: Recording, home: Path) -> dict[str, str]:
    """Return file name -> YAML. CRDs are left out: they are upstream's text, whose version is pinned."""
    _, kinds = CASES[name]
    files: dict[str, str] = {}
    for resource in recording.objects():
        if resource.kind != "CustomResourceDefinition" and (not kinds or resource.kind in kinds):
            text = yaml.safe_dump(resource.inputs, sort_keys=True, width=120, allow_unicode=True)
            files[f"{resource.kind}.{resource.name}.yaml"] = text.replace(str(home), HOME_MARK)
    return files


def test_manifests_are_the_golden_ones(case, machine_home):
    name, recording = case
    rendered = _rendered(name, recording, machine_home)
    folder = GOLDEN / name
    if UPDATE:
        _write(folder, rendered)
    golden = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.yaml")}
    assert sorted(rendered) == sorted(golden)
    for file, text in rendered.items():
        assert text == golden[file], f"{name}/{file} differs: if that is wanted, run UPDATE_GOLDEN=1 make test-fast"


def test_no_golden_folder_is_forgotten():
    assert {folder.name for folder in GOLDEN.iterdir() if folder.is_dir()} == set(CASES)


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.yaml"):
        stale.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
