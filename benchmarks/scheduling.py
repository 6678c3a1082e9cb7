"""From a submitted job to its last bound pod: manifests of ours against Volcano Jobs written by hand."""

from __future__ import annotations

import statistics
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.rounds import interleaved_seconds, spread
from benchmarks.simulated_cluster import CLAIMS, NAMESPACE, QUEUE, simulated_cluster
from infra.gpu.sharing import GPU_RESOURCE
from infra.images import PAUSE_IMAGE
from infra.offers import GPU_TAINT, PlatformOffers
from infra.platform import ResolvedPlatform
from infra.pools import SIMULATED_TAINT, pool_offers
from infra.settings.parse import parse_settings
from tools.tables import table
from workloads.job import named_job_manifest
from workloads.network_policy import PolicyIdentity, job_network_policy_manifest
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.resolved import ResolvedJob
from workloads.resources import Resources
from workloads.volcano_job import job_labels

if TYPE_CHECKING:
    from rich.table import Table

    from infra.manifests import Manifest
    from tools.progress import Progress

ROUNDS = 3
NODES = 500
INSTANCE_TYPE = "ecs.ebmgn7e.32xlarge"
JOBS, PODS_PER_JOB = 100, 10
_PODS = JOBS * PODS_PER_JOB


def measure(report: Progress) -> Table:
    """Return the table; the cluster that it takes is of its own, and gone afterwards."""
    run_numbers = count()
    sizes: dict[str, int] = {}
    with simulated_cluster("bench", nodes=NODES, instance_type=INSTANCE_TYPE, report=report) as cluster:

        def run(variant: str) -> None:
            prefix = f"run-{next(run_numbers)}"
            report.detail(f"{prefix}: {variant}")
            manifests = [each for job in range(JOBS) for each in VARIANTS[variant](f"{prefix}-{job}")]
            cluster.run_until_bound(manifests, _PODS)

        def clean_up(variant: str) -> None:
            sizes[variant] = cluster.pod_bytes()
            cluster.clear()

        seconds = interleaved_seconds({name: partial(run, name) for name in VARIANTS}, ROUNDS, clean_up)
    title = f"{JOBS} gangs of {PODS_PER_JOB} pods on {NODES} simulated nodes, {ROUNDS} interleaved rounds"
    rows = [_row(name, seconds, sizes[name]) for name in VARIANTS]
    return table(title, ["manifests", "median (range) per pod", "ratio of medians", "size of a pod"], rows)


def _row(name: str, seconds: dict[str, list[float]], size: int) -> list[str]:
    ratio = statistics.median(seconds[name]) / statistics.median(seconds[PEER])
    return [name, spread([1000 * value / _PODS for value in seconds[name]], "ms", 1), f"{ratio:.2f}", f"{size} bytes"]


def _rendered(name: str) -> list[Manifest]:
    """Return what a PyTorchJob of ours becomes: a Volcano Job and the policy that opens its pods to each other."""
    args = PyTorchJobArgs(
        program=("-m", "trainer.train"), workers=PODS_PER_JOB, resources=Resources(gpus=1), pool=_POOL
    )
    job = named_job_manifest(name, args, lambda job_name, _: pytorch_shape(job_name, args), _RESOLVED)
    metrics_ports = pytorch_shape(name, args).metrics_ports
    identity = PolicyIdentity(what="job", name=name, namespace=NAMESPACE, owner=_RESOLVED.owner)
    return [job_network_policy_manifest(identity, job_labels(name, _RESOLVED.owner), metrics_ports), job]


def _by_hand(name: str, *, plugins: dict[str, list[str]]) -> list[Manifest]:
    """Return a gang of PyTorch pods as Volcano's documentation writes it: no volume, no security, no environment."""
    container = {
        "name": "main",
        "image": PAUSE_IMAGE,
        "command": ["python3", "-m", "trainer.train"],
        "resources": {"limits": {GPU_RESOURCE: 1}},
    }
    pod = {
        "restartPolicy": "Never",
        "tolerations": [taint.toleration() for taint in (GPU_TAINT, SIMULATED_TAINT)],
        "containers": [container],
    }
    sizes = {"master": 1, "worker": PODS_PER_JOB - 1}
    spec = {
        "schedulerName": "volcano",
        "queue": QUEUE,
        "minAvailable": PODS_PER_JOB,
        "plugins": plugins,
        "tasks": [{"name": role, "replicas": size, "template": {"spec": pod}} for role, size in sizes.items()],
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}]


_SETTINGS = parse_settings({"cluster": {"simulated_nodes": [{"instance_type": INSTANCE_TYPE, "count": NODES}]}})
_POOLS = pool_offers(_SETTINGS)
_POOL = _POOLS[0].name
_PLATFORM = ResolvedPlatform(
    namespace=NAMESPACE,
    queue=QUEUE,
    data_claim=CLAIMS.data,
    output_claim=CLAIMS.output,
    trainer_image=PAUSE_IMAGE,
    offers=PlatformOffers(pools=_POOLS),
)
_RESOLVED = ResolvedJob(platform=_PLATFORM, owner="benchmark", queue=QUEUE, image=PAUSE_IMAGE)
PEER = "by hand, Volcano's pytorch plugin"
# Without a Service the workers would not find their master; Volcano's webhook adds it, where one runs.
_PYTORCH = {"pytorch": ["--master=master", "--worker=worker", "--port=29500"], "svc": []}
VARIANTS = {
    "PyTorchJob of athanor": _rendered,
    PEER: partial(_by_hand, plugins=_PYTORCH),
    "by hand, no plugin": partial(_by_hand, plugins={}),
}
