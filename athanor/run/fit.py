"""Checks whether a platform can run a job, before the engine starts: what its preview would refuse, only sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.gpus import allocatable, is_gpu, requests
from athanor.inspection.node_fit import refusal, selects
from athanor.inspection.objects import formatted
from athanor.run.image_modules import check_module_exists, check_prepare
from athanor.run.options import refused_in_options
from athanor.runs.state_files import PROJECT
from infra.errors import RefusalError, choices
from infra.node_labels import POOL_LABEL, POOL_ROLE_LABEL, ZONE_LABEL
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
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from athanor.inspection.objects import Object
    from athanor.run.description import Description
    from infra.manifests import Manifest
    from infra.offers import PoolOffer
    from infra.outputs import PlatformOutputs
    from workloads.job_args import JobArgs
    from workloads.volcano_job import JobShape


_OF_POOLS: dict[str, Callable[[PoolOffer], tuple[str, ...]]] = {
    POOL_LABEL: lambda pool: (pool.name,),
    POOL_ROLE_LABEL: lambda pool: (pool.role,),
    ZONE_LABEL: lambda pool: pool.zones,
    "node.kubernetes.io/instance-type": lambda pool: pool.instance_types,
}
"""Labels that the platform knows of nodes which do not exist yet."""
_FIELDS = {"cpu": "resources.cpu", "memory": "resources.memory"}
"""Fields by resource."""


def check_fits(
    arguments: argparse.Namespace, described: Description, outputs: PlatformOutputs, nodes: Sequence[Object] = ()
) -> str | None:
    """Refuse a job that the platform cannot run; return what it waits for until a node comes, if that is known.

    Args:
        arguments: What was typed.
        described: The job that it describes.
        outputs: The platform.
        nodes: Those of its cluster; none where they may not be listed.

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
    pools = outputs.platform_offers.pools
    _check_pool(arguments, outputs)
    check_module_exists(_program(args), args, resolved.image)
    with refused_in_options():
        check_prepare(args, resolved.image)
        manifests = job_manifests(described.name, described.kind, args, lambda name, _: _shape(name, args), resolved)
        for task in manifests["job"]["spec"]["tasks"] if not pools else ():
            _check_nodes(task["template"]["spec"], nodes)
        return _check_selector(args, pools, nodes)


def _check_nodes(spec: Manifest, nodes: Sequence[Object]) -> None:
    """Refuse a pod that asks for more than each node has that takes it; one that none takes is for `athanor why`."""
    usable = [allocatable(node) for node in nodes if selects(spec, node) and not _keeps_away(spec, node)]
    asked = requests(spec)
    if not usable or any(all(node[kind] >= asked[kind] for kind in asked) for node in usable):
        return
    for kind, amount in asked.items():
        field = _FIELDS.get(kind) or ("resources.gpus" if is_gpu(kind) else kind)
        largest = max(node[kind] for node in usable)
        if amount > largest:
            limit = f"the largest node has {formatted(largest, kind)} for pods"
            raise RefusalError(field, formatted(amount, kind), limit, _fix(largest))
    limit = "no node has this together with everything else that the pod requests"
    raise RefusalError("resources.cpu", formatted(asked["cpu"]), limit, "request less CPU, memory or GPUs")


def _check_selector(args: JobArgs, pools: Sequence[PoolOffer], nodes: Sequence[Object]) -> str | None:
    """Refuse labels that no node has and none can get; return what to say where nodes of a pool may come with them."""
    chosen = [pool for pool in pools if args.pool in {None, pool.name}]
    labels = [node["metadata"].get("labels", {}) for node in nodes]
    selected = {**args.node_labels, **({POOL_LABEL: args.pool} if args.pool else {})}
    if not args.node_labels or not labels or any(selected.items() <= each.items() for each in labels):
        return None
    there = {pair for each in labels for pair in each.items()}
    key, value = min(args.node_labels.items(), key=there.__contains__)
    of_pools = [_OF_POOLS[key](pool) for pool in chosen] if key in _OF_POOLS else []
    known = {each for names in of_pools for each in names} if all(of_pools) else set[str]()
    if pools and (not known or value in known):
        words = " and ".join(f"{key}={value}" for key, value in selected.items())
        return f"no node has {words} now: the pods wait for one"
    others = known or {other for name, other in there if name == key and other != value}
    limit = "no node has this label together with everything else that is requested"
    fix = choices(value, others) if others else "omit it; `kubectl get nodes --show-labels` shows what nodes have"
    raise RefusalError(f"node_labels[{key!r}]", value, limit, fix)


def _fix(largest: Fraction) -> str:
    if largest == 0:
        return "omit it, because no node has any"
    return "request less, because the node's own pods need some of it, too, and spread the work over more workers"


def _keeps_away(spec: Manifest, node: Object) -> bool:
    """Whether a node does not take a pod for a reason that stays: one that is not ready or cordoned comes back."""
    return refusal(spec, node).startswith("taint ")


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


def _program(args: JobArgs) -> Sequence[str]:
    if isinstance(args, PyTorchJobArgs | MPIJobArgs | TensorFlowJobArgs):
        return args.program
    assert isinstance(args, BatchJobArgs)
    return args.command


def _shape(job_name: str, args: JobArgs) -> JobShape:
    if isinstance(args, PyTorchJobArgs):
        return pytorch_shape(job_name, args)
    if isinstance(args, MPIJobArgs):
        return mpi_shape(job_name, args)
    if isinstance(args, TensorFlowJobArgs):
        return tensorflow_shape(job_name, args)
    assert isinstance(args, BatchJobArgs)
    return batch_shape(args)
