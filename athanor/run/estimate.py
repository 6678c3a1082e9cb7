"""What a run takes from its platform, in words: pods, GPUs, queue, and what the GPUs cost by the hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.queues import place_of_new
from infra.cost import node_prices
from infra.instance_types import INSTANCE_TYPES, PRICES_AS_OF
from workloads.accelerators import WholeGpus
from workloads.volcano_job import priority_class

if TYPE_CHECKING:
    from athanor.inspection.objects import Snapshot
    from athanor.run.description import Description
    from infra.offers import PlatformOffers, PoolOffer
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
    each = f"{resources.cpu} CPU, {resources.memory_size} memory" + (f", {gpus} GPUs" if gpus else "")
    lines = [
        f"{described.kind} {described.name}: {pods} {'pod' if pods == 1 else 'pods'} of {each}",
        f"queue: {_queue(described, platform, line)}; pool: {args.pool or 'any that fits'}",
    ]
    if gpus:
        lines.append(f"GPUs: {pods * gpus} in all, {_price(pods * gpus, args.pool, platform.platform_offers)}")
    return [*lines, _code(described.source)]


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


def _code(source: LocalFolder) -> str:
    archive = source.archive
    size = f"{len(archive.content) / 1024:,.0f} KiB"
    files = "1 file" if archive.files == 1 else f"{archive.files} files"
    return f"code: {files}, {size}, sha256 {archive.digest[:12]}"


def _price(gpus: int, pool: str | None, offers: PlatformOffers) -> str:
    """Return the GPUs' part of their nodes' list prices, from the cheapest to the dearest pool that has GPUs."""
    pools = [each for each in offers.pools if each.gpus_per_node and pool in {None, each.name}]
    shares = [share for each in pools for share in _shares(each)]
    if not shares:
        return "price not known"
    lowest, highest = gpus * min(shares), gpus * max(shares)
    amount = f"{lowest:,.2f}" if lowest == highest else f"{lowest:,.2f} to {highest:,.2f}"
    return f"{amount} CNY/h (list price on demand, {PRICES_AS_OF})"


def _shares(pool: PoolOffer) -> list[float]:
    """Return the lowest and the highest price of one GPU of a pool; nothing where a type's is not known."""
    facts = [INSTANCE_TYPES.get(name) for name in pool.instance_types]
    prices = node_prices([each.price_cny_per_hour if each else None for each in facts], None)
    return [price / (pool.gpus_per_node or 1) for price in prices if price is not None]
