"""The Pulumi program of a run: its workloads on the platform of the stack, as another team would declare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as kubernetes

from infra.platform import Platform
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni
from infra.rdma import Rdma
from tools.acceptance import workload_requests as requests
from workloads.batch import BatchJob, BatchJobArgs
from workloads.network_benchmark import Measurement, NetworkBenchmarkArgs, benchmark_job
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

if TYPE_CHECKING:
    from infra.pod_network_modes import PodNetwork
    from workloads.job import Job

REQUESTS = "requests.json"
"""File in the program's folder: stack, cluster, kubeconfig and the requests."""
_NETWORKS: dict[requests.NetworkKind, PodNetwork] = {
    "shared": SharedEni(),
    "exclusive": ExclusiveEni(),
    "host": HostNetwork(),
}


def main(folder: Path) -> None:
    """Declare what `requests.json` in a folder says, and export the jobs' names by the requests' names."""
    content = json.loads((folder / REQUESTS).read_text(encoding="utf-8"))
    provider = kubernetes.Provider(
        "cluster",
        kubeconfig=pulumi.Output.secret(Path(content["kubeconfig"]).read_text(encoding="utf-8")),
        # A run that is resumed comes with another kubeconfig of the same cluster.
        cluster_identifier=content["cluster"],
    )
    platform = Platform.from_stack(f"{pulumi.get_organization()}/{content['project']}/{content['stack']}", provider)
    for data in content["requests"]:
        request = requests.from_data(data)
        pulumi.export(request.name, _declared(request, platform).job_name)


def _declared(request: requests.Probe | requests.Measurement, platform: Platform) -> Job:
    if isinstance(request, requests.Probe):
        return BatchJob(request.name, platform, probe_args(request))
    return PyTorchJob(request.name, platform, measurement_args(request))


def probe_args(request: requests.Probe) -> BatchJobArgs:
    """Return the job of a probe."""
    words = ("trainer.helpers.hardware", f"--busy_seconds={request.busy_seconds}")
    if request.check_minutes:
        words = ("trainer.hardware_check", f"--minutes={request.check_minutes}", "--output=/tmp/report.json")
    return BatchJobArgs(
        command=("python3", "-m", *words),
        max_restarts=0 if request.check_minutes else None,  # a check that fails is an answer
        pods=request.pods,
        pool=request.pool,
        resources=_resources(request),
    )


def measurement_args(request: requests.Measurement) -> PyTorchJobArgs:
    """Return the job of a measurement: the platform's own network benchmark."""
    measured = Measurement(network=_NETWORKS[request.network], rdma=Rdma() if request.rdma else None)
    args = NetworkBenchmarkArgs(
        measurements=(measured,),
        pool=request.pool,
        workers=requests.PODS_TO_COMPARE,
        resources=_resources(request),
        env={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    )
    # All of a pool's results in one folder: the last job's log compares them.
    return benchmark_job(f"acceptance-{request.pool}", measured, args)


def _resources(request: requests.Probe | requests.Measurement) -> Resources:
    return Resources(cpu=str(request.cpus), memory=f"{request.memory_gib}Gi", gpus=request.gpus)
