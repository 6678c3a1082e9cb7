"""The platform's offers to the pods of workloads: plain data that passes from stack to stack in the outputs."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import TypeAdapter, ValidationError

from infra.autoscaling_metrics import AutoscalingMetric  # noqa: TC001 - the contract's schema is generated from it
from infra.cuda import ImageCuda
from infra.errors import RefusalError, choices
from infra.instance_types import INSTANCE_TYPES, RdmaKind
from infra.namespaces import PodSecurity  # noqa: TC001 - the contract's schema is generated from the annotations
from infra.settings.gpu import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infra.instance_types import InstanceType


_SHARING: TypeAdapter[Sharing | None] = TypeAdapter(Sharing | None)


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A taint that every node of a pool carries."""

    key: str
    value: str
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"

    def toleration(self) -> dict[str, str]:
        """Return the toleration that lets a pod onto nodes with this taint, whatever its value."""
        return {"key": self.key, "operator": "Exists", "effect": self.effect}


GPU_TAINT = Taint(key="nvidia.com/gpu", value="present")
"""On every GPU node: a GPU that waits for its job must not be blocked by pods that need none."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """What the instance types of a pool are to its pods, so that no reader of an offer needs to know the types."""

    largest_vcpus: int
    """Of the type with the most."""
    largest_memory_gib: int
    """Of the type with the most."""
    rdma: RdmaKind = "none"
    """Kind of RDMA device that its nodes have, whether or not pods can ask for it."""
    nvlink: bool = False
    """Whether the GPUs of a node reach each other without crossing PCIe."""


def node_facts(types: Sequence[InstanceType]) -> NodeFacts | None:
    """Return what a pool's instance types are to its pods; None for a pool of machines without one (Lingjun)."""
    if not types:
        return None
    return NodeFacts(
        largest_vcpus=max(each.vcpus for each in types),
        largest_memory_gib=max(each.memory_gib for each in types),
        rdma=types[0].rdma,
        nvlink=types[0].nvlink,
    )


@dataclass(frozen=True, kw_only=True)
class PoolOffer:
    """What one pool offers; its instance types are alike."""

    name: str
    role: Literal["system", "cpu", "gpu"]
    instance_types: tuple[str, ...]
    node: NodeFacts | None = None
    """What these types are to pods; None for Lingjun machines, and where it is not known."""
    zones: tuple[str, ...]
    """Zones its nodes can be in; empty where the platform does not know."""
    max_nodes: int
    min_nodes: int = 0
    """Nodes that are always there; 0 where a stack of an earlier release did not tell."""
    gpus_per_node: int | None
    """None for Lingjun machines: their type is not ours to choose, and no table of ours knows them."""
    gpu_memory_gib: int
    """Memory of one GPU; 0 without GPUs and where it is not known."""
    shares_per_gpu: int
    """Pods that one GPU takes: its replicas or MIG instances, 1 where GPUs are whole, 0 where pods ask for GiB."""
    sharing: Sharing | None
    eni: Literal["shared", "exclusive"]
    exclusive_pods: int | None
    """Pods per node that get a network interface of their own; 0 where interfaces are shared, None where not known."""
    rdma: RdmaKind
    """Kind of RDMA device that pods can ask for."""
    rdma_on_host_network_only: bool = False
    """Whether only pods on the host's network can use it; False where a stack of an earlier release did not tell."""
    taints: tuple[Taint, ...]
    terway: bool
    """Whether the pool is ACK's, with Terway as its network."""
    driver_version: str | None = None
    """NVIDIA driver of its nodes; None without GPUs, and where the platform does not know."""
    compute_capability: str | None = None
    """Of its GPUs, such as 8.0; None without GPUs, and where it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Return the offer as JSON data, for the stack's outputs."""
        return {**asdict(self), "sharing": self.sharing.model_dump() if self.sharing else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the offer that `to_dict` wrote, perhaps in a newer version: keys it does not know are ignored.

        Raises:
            RefusalError: a key is missing, or the sharing is of a kind that this code does not know.
        """
        known = {field.name: field for field in fields(cls)}
        missing = sorted(name for name in set(known) - set(data) if known[name].default is MISSING)
        if missing:
            raise RefusalError("pool", dict(data), f"lacks {', '.join(missing)}", "use a stack of the athanor project")
        values = cast("dict[str, Any]", _whole_numbers({name: data[name] for name in known if name in data}))
        try:
            values["sharing"] = _SHARING.validate_python(values["sharing"])
        except ValidationError:
            raise RefusalError(
                "pool.sharing", data["sharing"], "is not supported by this code", "update athanor"
            ) from None
        values["node"] = _read_node(data)
        values["taints"] = tuple(Taint(**taint) for taint in values["taints"])
        for name in ("instance_types", "zones"):
            values[name] = tuple(values[name])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class GatewayOffer:
    """How clients outside the cluster reach services."""

    domain: str
    """Domain of all hosts."""
    public: bool
    """Whether it listens on the internet."""


@dataclass(frozen=True, kw_only=True)
class PackageIndexOffer:
    """Where jobs install Python packages from."""

    url: str
    """As pip takes it."""
    addresses: tuple[str, ...]
    """CIDRs of the hosts that serve it, or `internet`."""
    port: int


@dataclass(frozen=True, kw_only=True)
class PlatformOffers:
    """What a platform offers to the pods of workloads; part of its outputs."""

    pools: tuple[PoolOffer, ...] = ()
    """Its node pools; empty where the cluster is somebody else's."""
    pod_networkings: tuple[str, ...] = ()
    """Names of its PodNetworking resources."""
    pod_security: PodSecurity = "restricted"
    """Pod Security level of the workloads' namespace."""
    queues: tuple[str, ...] = ()
    """Names of its queues; empty where they are not known."""
    priority_classes: tuple[str, ...] = ()
    """Names of its PriorityClasses for workloads; empty where they are not known."""
    topology: bool = False
    """Whether its HyperNodes tell which nodes are near each other."""
    clean_up: bool = False
    """Whether it removes the pods of finished jobs."""
    trainer_cuda: ImageCuda | None = None
    """CUDA in the trainer image; None without, and where it is not known."""
    tensorflow_cuda: ImageCuda | None = None
    """The same for the image of TensorFlow jobs."""
    mps: bool = False
    """Whether its device plugin shares GPUs through NVIDIA's Multi-Process Service."""
    gpus_by_variable: bool = True
    """Whether its nodes' device plugin may name a container's GPUs in NVIDIA_VISIBLE_DEVICES."""
    gpu_runtime_class: str | None = None
    """RuntimeClass of pods with GPUs; None where the nodes' default runtime has them."""
    networks: tuple[str, ...] = ()
    """CIDRs of the VPC and of Services; empty where they are not known."""
    autoscaling: tuple[AutoscalingMetric, ...] | None = None
    """What autoscalers of services can hold; None where it is not known."""
    gateway: GatewayOffer | None = None
    """None where there is none."""
    package_index: PackageIndexOffer | None = None
    """None where it is that of Python."""

    def to_dict(self) -> dict[str, Any]:
        """Return the offers as JSON data, for the stack's outputs."""
        return {
            "pools": [pool.to_dict() for pool in self.pools],
            "pod_networkings": list(self.pod_networkings),
            "pod_security": self.pod_security,
            "queues": list(self.queues),
            "priority_classes": list(self.priority_classes),
            "topology": self.topology,
            "clean_up": self.clean_up,
            "trainer_cuda": asdict(self.trainer_cuda) if self.trainer_cuda else None,
            "tensorflow_cuda": asdict(self.tensorflow_cuda) if self.tensorflow_cuda else None,
            "mps": self.mps,
            "gpus_by_variable": self.gpus_by_variable,
            "gpu_runtime_class": self.gpu_runtime_class,
            "networks": list(self.networks),
            "autoscaling": None if self.autoscaling is None else list(self.autoscaling),
            "gateway": asdict(self.gateway) if self.gateway else None,
            "package_index": _index_data(self.package_index),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the offers that `to_dict` wrote.

        Raises:
            RefusalError: a pool is not readable; see `PoolOffer.from_dict`.
        """
        return cls(
            pools=tuple(PoolOffer.from_dict(pool) for pool in data["pools"]),
            pod_networkings=tuple(data["pod_networkings"]),
            pod_security=data["pod_security"],
            queues=tuple(data.get("queues", ())),
            priority_classes=tuple(data.get("priority_classes", ())),
            topology=data.get("topology", False),
            clean_up=data.get("clean_up", False),
            trainer_cuda=_image_cuda(data.get("trainer_cuda")),
            tensorflow_cuda=_image_cuda(data.get("tensorflow_cuda")),
            mps=data.get("mps", False),
            gpus_by_variable=data.get("gpus_by_variable", True),
            gpu_runtime_class=data.get("gpu_runtime_class"),
            networks=tuple(data.get("networks", ())),
            autoscaling=_optional_tuple(data.get("autoscaling")),
            gateway=_gateway(data.get("gateway")),
            package_index=_package_index(data.get("package_index")),
        )


NO_OFFERS = PlatformOffers()
"""Of a cluster whose nodes the platform does not know."""
_NEWER_WORDS = {"literal_error", "union_tag_invalid"}
"""Kinds of errors of pydantic for words that a newer release may have added; who needs one of them refuses it."""


@cache
def read_offers(text: str) -> PlatformOffers:
    """Return the offers that a stack exports as JSON text; empty text is that of a release before them.

    Raises:
        RefusalError: it is not JSON, has another shape, or something in it is too new to be read.
    """
    if not text:
        return NO_OFFERS
    fix = "use a stack of the athanor project, or update athanor"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusalError("offers", text, "is not JSON", fix) from None
    try:
        _adapter().validate_python(data)
    except ValidationError as invalid:
        wrong = [error for error in invalid.errors(include_url=False) if error["type"] not in _NEWER_WORDS]
        if wrong:
            path, value, limit = ".".join(map(str, ("offers", *wrong[0]["loc"]))), wrong[0]["input"], wrong[0]["msg"]
            raise RefusalError(path, value, f"cannot be read: {limit}", fix) from None
    try:
        return PlatformOffers.from_dict(data)
    except KeyError as missing:
        raise RefusalError("offers", sorted(data), f"lack {missing.args[0]}", fix) from None


@cache
def _adapter() -> TypeAdapter[PlatformOffers]:
    return TypeAdapter(PlatformOffers)


def _read_node(pool: Mapping[str, Any]) -> NodeFacts | None:
    """Return a pool's node; a stack of an earlier release exports the names of its types alone."""
    if "node" in pool:
        known = [each.name for each in fields(NodeFacts)]
        node = cast("dict[str, Any] | None", _whole_numbers(pool["node"]))
        return NodeFacts(**{name: node[name] for name in known if name in node}) if node else None
    types = [INSTANCE_TYPES[name] for name in pool["instance_types"] if name in INSTANCE_TYPES]
    return node_facts(types) if len(types) == len(pool["instance_types"]) else None


def _image_cuda(data: Mapping[str, Any] | None) -> ImageCuda | None:
    return ImageCuda(version=data["version"], kernels=tuple(data["kernels"])) if data else None


def _gateway(data: Mapping[str, Any] | None) -> GatewayOffer | None:
    return GatewayOffer(domain=data["domain"], public=data["public"]) if data else None


def _index_data(index: PackageIndexOffer | None) -> dict[str, Any] | None:
    return {**asdict(index), "addresses": list(index.addresses)} if index else None


def _package_index(data: Mapping[str, Any] | None) -> PackageIndexOffer | None:
    if not data:
        return None
    return PackageIndexOffer(url=data["url"], addresses=tuple(data["addresses"]), port=int(data["port"]))


def _optional_tuple(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _whole_numbers(value: object) -> object:
    """Numbers come back from a stack's state as floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in cast("Iterable[object]", value)]
    return value


def pool_named(name: str, offers: Sequence[PoolOffer]) -> PoolOffer:
    """Return the offer of a pool.

    Raises:
        RefusalError: the platform has no such pool; the message names the near ones.
    """
    for offer in offers:
        if offer.name == name:
            return offer
    raise RefusalError("pool", name, "the platform has no pool of that name", choices(name, [o.name for o in offers]))
