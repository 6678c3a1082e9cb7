"""Summary of the resources that a run takes: pods, GPUs, queue, and the hourly cost of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.queues import place_of_new
from athanor.runs.prices import amount, gpu_prices
from infra.instance_types import PRICES_AS_OF
from workloads.accelerators import WholeGpus
from workloads.git_source import GitSource
from workloads.volcano_job import priority_class

if TYPE_CHECKING:
    from athanor.inspection.objects import Snapshot
    from athanor.run.description import Description
    from infra.offers import PlatformOffers
    from infra.outputs import PlatformOutputs
    from workloads.local_folder import LocalFolder


def estimate(described: Description, platform: PlatformOutputs, line: Snapshot | None) -> list[str]:
    """Return the lines that are shown before a run starts.

    Args:
        described: The run.
        platform: Where it runs.
        line: Who waits, with their priorities; None if that may not be read.

    Raises:
        RefusalError: the platform has no such PriorityClass.
    """
    args, pods = described.args, described.workers
    resources = args.resources
    asked = resources.accelerator
    gpus = asked.count if isinstance(asked, WholeGpus) else 0
    each = f"{resources.cpu} CPU, {resources.memory_size} memory" + (
        f", {gpus} {'GPU' if gpus == 1 else 'GPUs'}" if gpus else ""
    )
    lines = [
        f"{described.kind} {described.name}: {pods} {'pod' if pods == 1 else 'pods'} of {each}",
        f"queue: {_queue(described, platform, line)}; pool: {args.pool or 'any that fits'}",
    ]
    if gpus:
        lines.append(f"GPUs: {pods * gpus} in all, {_price(pods * gpus, args.pool, platform.platform_offers)}")
    return [*lines, _code(described.args.source), *described.notes]


def _queue(described: Description, platform: PlatformOutputs, line: Snapshot | None) -> str:
    """Return the queue and the place that the run would have in it."""
    args, queue = described.args, str(described.args.queue or platform.queue)
    if line is None:
        return queue
    known = platform.platform_offers.priority_classes
    asked = priority_class(args.priority_class, platform.namespace, known) if args.priority_class else ""
    place, waiting = place_of_new(line, queue, asked)
    words = f"{queue}, number {place} of {waiting} that wait" if waiting > 1 else f"{queue}, where no other job waits"
    return f"{words}, as far as you may see" if line.unreadable else words


def _code(source: GitSource | LocalFolder | None) -> str:
    if source is None:
        return "code: the image's"
    if isinstance(source, GitSource):
        return f"code: {source.repository} at {source.commit or source.tag or source.branch or 'its default branch'}"
    archive = source.archive
    size = f"{len(archive.content) / 1024:,.0f} KiB"
    files = "1 file" if archive.files == 1 else f"{archive.files} files"
    left_out = f"; left out by git's rules: {archive.left_out}" if archive.left_out else ""
    return f"code: {files}, {size}, sha256 {archive.digest[:12]}{left_out}"


def _price(gpus: int, pool: str | None, offers: PlatformOffers) -> str:
    """Return the GPUs' part of their nodes' list prices, from the cheapest to the dearest pool that has GPUs."""
    prices = gpu_prices(offers, pool)
    if prices is None:
        return "price not known"
    return f"{amount(gpus * prices[0], gpus * prices[1])} CNY/h (list price on demand, {PRICES_AS_OF})"
