"""The nodes of a pool as the account knows them: which machines there are, in which zone, of which type."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from tests.api_double.account import timestamp
from tests.api_double.cs import addons
from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record

LINGJUN_MACHINE = "lingjun"
"""Instance type that Lingjun nodes show: they are not ECS instances."""
_FIRST_HOST = 10
"""Lower addresses of a vswitch are left to everything that is not a node."""


def wanted_size(pool: Record) -> int:
    """Return how many nodes a pool is to have: its desired size within its limits, if these scale it."""
    size: int = pool["scaling_group"].get("desired_size") or 0
    scaling = pool["auto_scaling"]
    if scaling.get("enable"):
        size = max(size, len(pool["_nodes"]))
        size = min(max(size, scaling["min_instances"]), scaling["max_instances"])
    return size


def is_lingjun(pool: Record) -> bool:
    """Tell whether a pool's nodes are Lingjun machines."""
    return pool["nodepool_info"]["type"] == "lingjun"


def types_of(pool: Record) -> list[str]:
    """Return the instance types of a pool in order of preference."""
    return [LINGJUN_MACHINE] if is_lingjun(pool) else pool["scaling_group"]["instance_types"]


def sample(account: Account, pool: Record) -> dict[str, Any]:
    """Return a node as the pool's next one would be."""
    vswitch_id = pool["scaling_group"]["vswitch_ids"][0]
    return {
        "name": "sample",
        "instance_id": "",
        "instance_type": types_of(pool)[0],
        "address": "",
        "vswitch_id": vswitch_id,
        "zone": zone_of(account, vswitch_id),
        "spot": False,
        "created": "",
        **fresh_configuration(pool),
    }


def resize(account: Account, pool: Record, size: int) -> tuple[str, str] | None:
    """Add the missing nodes or remove the latest; returns the error of those that were not available, or None."""
    nodes: list[dict[str, Any]] = pool["_nodes"]
    del nodes[size:]
    while len(nodes) < size:
        vswitch_ids: list[str] = pool["scaling_group"]["vswitch_ids"]
        rotation = len(nodes) if pool["scaling_group"].get("multi_az_policy") == "BALANCE" else 0
        choices = [vswitch_ids[(rotation + step) % len(vswitch_ids)] for step in range(len(vswitch_ids))]
        placement = next(
            (
                (vswitch, instance_type)
                for vswitch in choices
                for instance_type in types_of(pool)
                if not is_sold_out(account, instance_type, zone_of(account, vswitch))
            ),
            None,
        )
        if placement is None:
            types = ", ".join(types_of(pool))
            missing = f"{size - len(nodes)} of {size} instances could not be created"
            message = f"{missing}: The resource is out of stock in the specified zone: {types}"
            return "OperationDenied.NoStock", message
        nodes.append(_node(account, pool, *placement))
    count_nodes(pool)
    return None


def count_nodes(pool: Record) -> None:
    """Bring the numbers of a pool's status up to date."""
    number = len(pool["_nodes"])
    pool["status"] = {
        **pool["status"],
        "total_nodes": number,
        "healthy_nodes": number,
        "serving_nodes": number,
        "initial_nodes": 0,
        "failed_nodes": 0,
        "offline_nodes": 0,
        "removing_nodes": 0,
    }


def sell_out(account: Account, *places: str) -> None:
    """Take instance types out of stock: `ecs.gn8is.2xlarge` everywhere, `ecs.gn8is.2xlarge@cn-hangzhou-i` in a zone."""
    for place in places:
        account.add("sold_out", place, {})


def restock(account: Account) -> None:
    """Have every instance type in stock again; pools that are short fill up by themselves, as scaling groups do."""
    for place in account.all("sold_out"):
        account.remove("sold_out", place)
    for pool in account.all("node_pool").values():
        if pool["status"]["state"] != "deleting":
            resize(account, pool, wanted_size(pool))
    account.kubernetes.changed()


def is_sold_out(account: Account, instance_type: str, zone: str) -> bool:
    """Tell whether a type is out of stock in a zone."""
    return any(account.find("sold_out", place) for place in (instance_type, f"{instance_type}@{zone}"))


def zone_of(account: Account, vswitch_id: str) -> str:
    """Return a vswitch's zone."""
    return _vswitch(account, vswitch_id)["ZoneId"]


def _vswitch(account: Account, vswitch_id: str) -> Record:
    vswitch = account.find("vswitch", vswitch_id)
    if vswitch is None:
        raise ApiError(400, "InvalidVSwitchId.NotFound", f"VSwitch {vswitch_id} not found")
    return vswitch


def _node(account: Account, pool: Record, vswitch_id: str, instance_type: str) -> dict[str, Any]:
    vswitch = _vswitch(account, vswitch_id)
    address = _free_address(account, vswitch_id, IPv4Network(vswitch["CidrBlock"]))
    return {
        "name": f"{pool['nodepool_info']['region_id']}.{address}",
        "instance_id": account.new_id("instance"),
        "instance_type": instance_type,
        "address": address,
        "vswitch_id": vswitch_id,
        "zone": vswitch["ZoneId"],
        "spot": _is_spot(pool, len(pool["_nodes"])) and not _is_bought_blindly(account, pool),
        "created": timestamp(),
        **fresh_configuration(pool),
    }


def fresh_configuration(pool: Record) -> dict[str, Any]:
    """Return what a node takes over from its pool when it is created, and later only on request."""
    kubernetes = pool["kubernetes_config"]
    return {
        "labels": {label["key"]: label.get("value", "") for label in kubernetes.get("labels", [])},
        "taints": [{"value": "", **taint} for taint in kubernetes.get("taints", [])],
        "max_pods": pool["node_config"].get("kubelet_configuration", {}).get("maxPods"),
    }


def _free_address(account: Account, vswitch_id: str, block: IPv4Network) -> str:
    used = {
        node["address"]
        for pool in account.all("node_pool").values()
        for node in pool["_nodes"]
        if node["vswitch_id"] == vswitch_id
    }
    for host in range(_FIRST_HOST, block.num_addresses - 1):
        if str(block[host]) not in used:
            return str(block[host])
    raise ApiError(400, "InvalidVSwitchId.IpNotEnough", f"VSwitch {vswitch_id} has no free address in {block}")


def _is_bought_blindly(account: Account, pool: Record) -> bool:
    """Tell whether instant scaling buys a pool's nodes on demand, because it cannot see what spot stock there is."""
    return bool(
        pool["auto_scaling"].get("enable")
        and pool["scaling_group"].get("compensate_with_on_demand")
        and account.find("addon", addons.key(pool["_cluster"], "goatscaler"))
    )


def _is_spot(pool: Record, position: int) -> bool:
    """Tell whether the node at a position is a spot instance: after the base, on-demand ones keep their share."""
    group = pool["scaling_group"]
    if group.get("spot_strategy", "NoSpot") == "NoSpot":
        return False
    above = position - (group.get("on_demand_base_capacity") or 0)
    if above < 0:
        return False
    share = group.get("on_demand_percentage_above_base_capacity") or 0
    # whole on-demand nodes that the share grants to the first (above + 1) nodes, and to those before
    return (above + 1) * share // 100 == above * share // 100
