"""Whether a platform can run a job, asked before the engine starts: what its preview would refuse, and sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.run.options import refused_in_options
from athanor.runs.stack import PROJECT
from infra.errors import RefusalError
from infra.platform import ResolvedPlatform
from workloads.batch import BatchJobArgs, batch_shape
from workloads.job import job_manifests
from workloads.mpi import MPIJobArgs, mpi_shape
from workloads.owner import owner_label
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.resolved import ResolvedJob
from workloads.tensorflow import TensorFlowJobArgs, tensorflow_shape

if TYPE_CHECKING:
    import argparse

    from athanor.run.description import Description
    from infra.outputs import PlatformOutputs
    from workloads.job_args import JobArgs
    from workloads.volcano_job import JobShape


def check_fits(arguments: argparse.Namespace, described: Description, outputs: PlatformOutputs) -> None:
    """Refuse a job that the platform cannot run.

    Args:
        arguments: What was typed.
        described: The job that it describes.
        outputs: The platform.

    Raises:
        RefusalError: in the words of the command line.
    """
    platform, args = ResolvedPlatform.of(outputs), described.args
    default = platform.tensorflow_image if isinstance(args, TensorFlowJobArgs) else platform.trainer_image
    resolved = ResolvedJob(
        platform=platform,
        owner=owner_label(PROJECT, described.name),
        image=str(args.image or default),
        queue=str(args.queue or platform.queue),
    )
    _check_pool(arguments, outputs)
    with refused_in_options():
        job_manifests(described.name, described.kind, args, lambda name, _: _shape(name, args), resolved)


def _check_pool(arguments: argparse.Namespace, outputs: PlatformOutputs) -> None:
    """Refuse a pool whose nodes give pods what no option asks for."""
    pool = next((each for each in outputs.platform_offers.pools if each.name == arguments.pool), None)
    if pool is None:
        return
    if pool.eni == "exclusive":
        limit = "every pod of this pool gets its own network interface"
        fix = "choose another pool; such an interface takes a Pulumi program (--print-program)"
        raise RefusalError("--pool", pool.name, limit, fix)
    if pool.sharing is not None and arguments.gpus:
        fix = "choose a pool of whole GPUs with --pool; a share takes a Pulumi program (--print-program)"
        raise RefusalError("--gpus", arguments.gpus, f"the nodes of pool {pool.name!r} share their GPUs", fix)


def _shape(job_name: str, args: JobArgs) -> JobShape:
    if isinstance(args, PyTorchJobArgs):
        return pytorch_shape(job_name, args)
    if isinstance(args, MPIJobArgs):
        return mpi_shape(job_name, args)
    if isinstance(args, TensorFlowJobArgs):
        return tensorflow_shape(job_name, args)
    assert isinstance(args, BatchJobArgs)
    return batch_shape(args)
