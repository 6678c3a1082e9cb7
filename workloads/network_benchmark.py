"""A benchmark of pod networks for training: one job per kind of network, and one table of all results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import pulumi

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.pod_network_modes import ExclusiveEni, HostNetwork, PodNetwork, SharedEni, TrunkEni
from infra.rdma import Rdma
from workloads.checks import check_name, check_range
from workloads.job_args import JobArgs
from workloads.pods import DATA_PATH, OUTPUT_PATH
from workloads.pytorch import PyTorchJob, PyTorchJobArgs

if TYPE_CHECKING:
    from infra.platform import Platform

_NAMES: dict[type[PodNetwork], str] = {
    SharedEni: "shared-eni",
    TrunkEni: "trunk-eni",
    ExclusiveEni: "exclusive-eni",
    HostNetwork: "host-network",
}


@checked("measurements")
@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One network to measure."""

    network: PodNetwork = SharedEni()
    pool: str | None = None
    """Node pool, where this network needs another than the benchmark's."""
    rdma: Rdma | None = None
    """Measure over the pool's RDMA device."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return _NAMES[type(self.network)] + ("-rdma" if self.rdma else "")


@checked()
@dataclass(frozen=True, kw_only=True)
class NetworkBenchmarkArgs(JobArgs):
    """Arguments of NetworkBenchmark.

    Networks are compared fairly on nodes of one kind that do nothing else: ask for all GPUs of a node, then jobs that
    want the same nodes run one after the other.
    """

    measurements: Sequence[Measurement] = (Measurement(),)
    """Networks to compare; the first one is what the others are measured against."""
    workers: int = 2
    """Pods of each job, to be on as many nodes."""
    processes_per_worker: int | None = None
    """Ranks per pod. Default: one per GPU, or one without GPUs."""
    maximum_mebibytes: int | None = None
    """Largest all-reduce; the sizes are powers of 4 from 1 KiB. Default: 1024 on GPUs, up to where bandwidth grows, and
    64 without."""
    rounds: int = 20
    """Repetitions of each size, of which the table shows the median."""
    image_steps: int = 20
    """Training steps to measure; 0 measures all-reduce alone."""

    def __post_init__(self) -> None:
        """Refuse what measures nothing.

        Raises:
            RefusalError: naming the field, the value and what to write.
        """
        super().__post_init__()
        check_range("workers", self.workers, 2, LARGEST_ROLE)
        if self.maximum_mebibytes is not None:
            check_range("maximum_mebibytes", self.maximum_mebibytes, 1, 65536)
        check_range("rounds", self.rounds, 1, 10_000)
        check_range("image_steps", self.image_steps, 0, 10_000)
        names = [measurement.name for measurement in self.measurements]
        if not names or len(set(names)) != len(names):
            limit = "must list at least one network, and each only once"
            raise RefusalError("measurements", names, limit, "write measurements=(Measurement(),)")
        visible, ranks = self.resources.visible_gpus, self.processes_per_worker
        if ranks is not None:
            check_range("processes_per_worker", ranks, 1, 16)
            if visible not in {0, ranks}:
                limit = f"a rank uses one GPU, and a worker has {visible}"
                raise RefusalError("processes_per_worker", ranks, limit, "omit it")
        self._check_what_measurements_say()

    def _check_what_measurements_say(self) -> None:
        for name, fix in (("network", "write Measurement(network=…)"), ("rdma", "write Measurement(rdma=…)")):
            value = getattr(self, name)
            if value not in {None, SharedEni()}:
                raise RefusalError(name, value, "is set per measurement", fix)
        if self.prepare:
            raise RefusalError("prepare", self.prepare, "has no effect: the images are synthetic", "omit it")


def benchmark_job(name: str, measurement: Measurement, args: NetworkBenchmarkArgs) -> PyTorchJobArgs:
    """Return the job that measures one network for the benchmark `name`."""
    flags = {
        "network": measurement.name,
        "data_dir": DATA_PATH,
        "output_dir": f"{OUTPUT_PATH}/{name}",
        "work_dir": "/tmp/work",  # noqa: S108 - inside the container
        "run_name": "$(ATHANOR_JOB)",
        "num_gpu": str(args.resources.visible_gpus),
        **({"max_bytes": str(args.maximum_mebibytes * 2**20)} if args.maximum_mebibytes else {}),
        "rounds": str(args.rounds),
        "image_steps": str(args.image_steps),
    }
    shared: dict[str, Any] = {each.name: getattr(args, each.name) for each in fields(JobArgs)}
    shared |= {"network": measurement.network, "pool": measurement.pool or args.pool, "rdma": measurement.rdma}
    return PyTorchJobArgs(
        program=("-m", "trainer.network_benchmark", *(f"--{key}={value}" for key, value in flags.items())),
        workers=args.workers,
        processes_per_worker=args.processes_per_worker,
        **shared,
    )


class NetworkBenchmark(pulumi.ComponentResource):
    """Measures all-reduce and a training step under each network; the last job's log has the table of all."""

    job_names: dict[str, pulumi.Output[str]]
    """Names of the Volcano Jobs, by what the table calls their networks."""

    def __init__(
        self, name: str, platform: Platform, args: NetworkBenchmarkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_name("benchmark name", name)
        for measurement in args.measurements:
            check_name("benchmark name", f"{name}-{measurement.name}")
        super().__init__("athanor:workloads:NetworkBenchmark", name, None, opts)
        self.job_names = {}
        for measurement in args.measurements:
            job = PyTorchJob(
                f"{name}-{measurement.name}",
                platform,
                benchmark_job(name, measurement, args),
                pulumi.ResourceOptions(parent=self),
            )
            self.job_names[measurement.name] = job.job_name
        self.register_outputs({"job_names": self.job_names})
