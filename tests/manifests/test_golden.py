"""Every object that the program sends to Kubernetes, as files: a diff of them is the blast radius of a change.

One case of each kind is kept whole, a folder each. Of the others (other networks, GPUs, settings), `differences/` has
what distinguishes them from it.

`UPDATE_GOLDEN=1 make test-fast` rewrites the files; read their diff before you commit it.
"""

from __future__ import annotations

import functools
import os
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi_kubernetes as kubernetes
import pytest
import yaml

from infra.platform import Platform
from tests.fixtures.recorded_stack import UNWATCHED
from tests.manifests.differences import differences
from tests.manifests.job_kind_cases import JOB_KIND_CASES
from tests.manifests.placement_cases import PLACEMENT_CASES
from tests.manifests.service_cases import SERVICE_CASES
from tests.recording_engine import Recording, record
from tests.tables import each_row
from tests.unit.infra.alicloud.storage_program import environment
from tools.stacks.engine import stack_config
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.recorded_stack import StackRecorder

GOLDEN = Path(__file__).parent / "golden"
DIFFERENCES = GOLDEN / "differences"
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"
HOME_MARK = "<home>"


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
    return record_stack({"cluster": nodes, "scheduling": scheduling, "digits": {"workers": 4}, **UNWATCHED})


def _simulated_nodes(record_stack: StackRecorder) -> Recording:
    return record_stack({"cluster": {"simulated_nodes": [{"instance_type": "ecs.ebmgn8v.48xlarge"}]}, **UNWATCHED})


def _alicloud_storage() -> Recording:
    bucket = {"name": "imagenet", "bucket": "team-datasets", "path": "/imagenet"}
    return environment({"oss": [bucket]}, protected=True)


def _gpu_nodes(record_stack: StackRecorder) -> Recording:
    sharing = {"mode": "mps", "replicas": 4}
    gpu = {"device_plugin": True, "dcgm_exporter": True, "sharing": sharing}
    return record_stack({"gpu": gpu, **UNWATCHED})


def _job_cleanup(record_stack: StackRecorder) -> Recording:
    return record_stack({"clean_up": {"enabled": True}, **UNWATCHED})


_GATEWAY_KINDS = (
    "ClientTrafficPolicy", "ClusterRole", "Deployment", "EnvoyProxy", "Gateway", "GatewayClass", "Job", "NetworkPolicy",
    "ReferenceGrant", "Role",
)  # fmt: skip


def _gateway(record_stack: StackRecorder) -> Recording:
    gateway = {"enabled": True, "domain": "models.example.com", "replicas": 2}
    quiet = {"digits": {"enabled": False}, "scheduling": {"install": False}}
    return record_stack({"gateway": gateway, **quiet, **UNWATCHED})


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
    "local": (lambda record_stack: record_stack(UNWATCHED), ()),
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


_OF_TRITON = ("triton-autoscaled", "triton-canary", "gpu-memory", "host-network")
BASES = {
    # name: the case that it is compared with, whose manifests are kept whole
    "gpu-job": "job-shared-eni",
    **{
        name: f"{name.partition('-')[0]}-shared-eni"
        for name in (*PLACEMENT_CASES, *JOB_KIND_CASES)
        if not name.endswith(("-shared-eni", "-everything", "-mirrored"))
    },
    **{name: "large-service" for name in SERVICE_CASES if name != "large-service"},
    "service-exposed": "service-canary",
    **{f"service-{name}": "service-triton" for name in _OF_TRITON},
}
WHOLE = [name for name in CASES if name not in BASES]


@pytest.fixture(scope="module")
def recorded(record_stack) -> Callable[[str], Recording]:
    """Record a case, once."""
    return functools.cache(lambda name: CASES[name][0](record_stack))


def _manifests(recording: Recording, kinds: tuple[str, ...], home: Path) -> dict[str, Any]:
    """Return file name -> manifest. CRDs are left out: they are upstream's text, whose version is pinned."""
    return {
        f"{each.kind}.{each.name}.yaml": _without_home(each.inputs, str(home))
        for each in recording.objects()
        if each.kind != "CustomResourceDefinition" and (not kinds or each.kind in kinds)
    }


def _without_home(node: Any, home: str) -> Any:
    if isinstance(node, dict):
        return {key: _without_home(value, home) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_home(value, home) for value in node]
    return node.replace(home, HOME_MARK) if isinstance(node, str) else node


@each_row("name", WHOLE)
def test_manifests_are_the_golden_ones(recorded, machine_home, name):
    manifests = _manifests(recorded(name), CASES[name][1], machine_home)
    rendered = {
        file: yaml.safe_dump(manifest, sort_keys=True, width=120, allow_unicode=True)
        for file, manifest in manifests.items()
    }
    folder = GOLDEN / name
    if UPDATE:
        _write(folder, rendered)
    golden = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.yaml")}
    assert sorted(rendered) == sorted(golden)
    for file, text in rendered.items():
        assert text == golden[file], f"{name}/{file} differs: if that is wanted, run UPDATE_GOLDEN=1 make test-fast"


@each_row(("name", "base"), BASES.items())
def test_the_others_differ_from_their_base_as_the_golden_files_say(recorded, machine_home, name, base):
    kinds = CASES[name][1]
    before, after = (_manifests(recorded(each), kinds, machine_home) for each in (base, name))
    text = f"# {name}, compared with {base}\n{differences(before, after)}"
    file = DIFFERENCES / f"{name}.txt"
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    advice = f"{name} differs: if that is wanted, run UPDATE_GOLDEN=1 make test-fast"
    assert text == file.read_text(encoding="utf-8"), advice


def test_no_golden_file_is_forgotten():
    assert {folder.name for folder in GOLDEN.iterdir() if folder.is_dir()} == {*WHOLE, DIFFERENCES.name}
    assert {file.stem for file in DIFFERENCES.iterdir()} == set(BASES)


def test_only_what_reads_targets_or_asks_the_api_server_reaches_the_metadata_of_nodes():
    policies = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in GOLDEN.rglob("NetworkPolicy.*.yaml")]
    reaching = {
        policy["metadata"]["name"]
        for policy in policies
        if any(_reaches_metadata(rule) for rule in policy["spec"].get("egress", []))
    }
    gateway = {"envoy-gateway", "activator", "gateway-certificates"}
    assert reaching == {"prometheus", "prometheus-operator", "kube-state-metrics", *gateway}


def _reaches_metadata(rule: dict[str, Any]) -> bool:
    if {each["port"] for each in rule.get("ports", [])} == {6443}:
        return False  # where API servers of nodes listen, and no metadata is
    blocks = [peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer]
    opened = ([each["cidr"], *each.get("except", [])] for each in blocks)
    inside = (
        [address in ip_network(cidr) for cidr in cidrs]
        for cidrs in opened
        for address in map(ip_address, ("169.254.169.254", "100.100.100.200"))
    )
    return "to" not in rule or any(first and not any(excepted) for first, *excepted in inside)


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.yaml"):
        stale.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
