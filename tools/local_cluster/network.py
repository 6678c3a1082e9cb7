"""The link between this machine and the node, and the choice of addresses that nothing else on this machine uses."""

from __future__ import annotations

import hashlib
import json
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from tools.local_cluster import state
from tools.local_cluster.errors import ClusterError
from tools.local_cluster.layout import BLOCK_PREFIX_LENGTH, Layout, Network
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.local_cluster.node import Node

# Private ranges (RFC 1918), then shared address space (RFC 6598), then benchmarking (RFC 2544): a machine whose VPN
# takes all of 10.0.0.0/8 still has room in another.
CANDIDATE_RANGES = ("10.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")
NODE_INTERFACE = "eth0"


class NoFreeNetworkError(ClusterError):
    """No address block is left that this machine has no route to."""


def used_networks() -> list[IPv4Network]:
    """Return the networks that this machine has routes and addresses for, the default route excluded."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    return list(_destinations(routes))


def _destinations(routes: Iterable[dict[str, Any]], *, but_not_of: str | None = None) -> Iterator[IPv4Network]:
    for route in routes:
        if route["dst"] not in {"default", "0.0.0.0/0"} and route.get("dev") != but_not_of:
            yield IPv4Network(route["dst"], strict=False)


def conflict(network: Network, layout: Layout) -> IPv4Network | None:
    """Return a network that this machine reaches some other way and that overlaps the cluster's block, if any."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    others = _destinations(routes, but_not_of=layout.interface)
    return next((other for other in others if other.overlaps(network.block)), None)


def choose_block(layout: Layout, used: Iterable[IPv4Network]) -> IPv4Network:
    """Return a block that overlaps nothing in use; two clusters made at the same time start looking at other places.

    Raises:
        NoFreeNetworkError: every candidate overlaps something.
    """
    taken = list(used)
    for candidates in CANDIDATE_RANGES:
        blocks = list(IPv4Network(candidates).subnets(new_prefix=BLOCK_PREFIX_LENGTH))
        digest = hashlib.sha256(str(layout.folder).encode()).digest()
        first = int.from_bytes(digest[:4], "big") % len(blocks)
        for block in blocks[first:] + blocks[:first]:
            if not any(block.overlaps(network) for network in taken):
                return block
    raise NoFreeNetworkError(
        f"no free /{BLOCK_PREFIX_LENGTH} in {', '.join(CANDIDATE_RANGES)}: this machine has routes into all of them; "
        "fix: disconnect the VPN, or stop what created the routes (`ip route`)"
    )


def blocks_of_siblings(layout: Layout) -> list[IPv4Network]:
    """Return the blocks of the other clusters with the same home, running or stopped."""
    states = (state.load(file) for file in layout.folder.parent.glob(f"*/{layout.state_file.name}"))
    return [stored.network.block for stored in states if stored is not None]


def connect(node: Node, network: Network) -> None:
    """Link the node with this machine: a veth pair, an address at each end, and a route to the cluster's block.

    Nothing on this machine forwards or filters: other machines cannot reach the cluster, nor does it reach them.
    """
    layout = node.layout
    if is_connected(node, network):
        return
    disconnect(layout)
    init = node.boot()
    length = network.link_prefix_length
    peer = ["peer", "name", NODE_INTERFACE, "netns", str(init.pid)]
    run(["ip", "link", "add", layout.interface, "type", "veth", *peer])
    node.run(["ip", "address", "replace", f"{network.node}/{length}", "dev", NODE_INTERFACE])
    node.run(["ip", "link", "set", NODE_INTERFACE, "up"])
    run(["ip", "address", "add", f"{network.host}/{length}", "dev", layout.interface])
    run(["ip", "link", "set", layout.interface, "up"])
    # last, because it is what `is_connected` looks for
    run(["ip", "route", "add", str(network.block), "via", str(network.node), "dev", layout.interface])


def is_connected(node: Node, network: Network) -> bool:
    """Return whether the link joins this machine with the node that runs now, and carries the cluster's route.

    The link of a node that has just ended stays for a moment, and so does its route.
    """
    interface = node.layout.interface
    try:
        here = json.loads(run(["ip", "-json", "link", "show", "dev", interface]))
        there = json.loads(node.run(["ip", "-json", "link", "show", "dev", NODE_INTERFACE]))
        routes = json.loads(run(["ip", "-json", "-4", "route", "show", "dev", interface]) or "[]")
    except CommandError:
        return False
    are_peers = here[0]["ifindex"] == there[0].get("link_index")
    return are_peers and any(route["dst"] == str(network.block) for route in routes)


def exists(layout: Layout) -> bool:
    """Return whether this machine's end of the link is there."""
    try:
        run(["ip", "link", "show", "dev", layout.interface])
    except CommandError:
        return False
    return True


def disconnect(layout: Layout) -> None:
    """Remove this machine's end of the link, and with it its address and route."""
    # it goes by itself a moment after the node; failing to delete what the kernel deletes just then is expected
    try:
        run(["ip", "link", "delete", "dev", layout.interface])
    except CommandError:
        if exists(layout):
            raise
