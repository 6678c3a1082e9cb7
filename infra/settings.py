"""What a stack's configuration file may say: typed, with defaults, refused early when wrong. No I/O happens here.

Every field is a key of `Pulumi.<stack>.yaml` under `athanor:`; nested models are objects there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from infra.errors import RefusalError, choices
from infra.images import TrainerVariant
from infra.instance_types import instance_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_CPU_QUANTITY = re.compile(r"[0-9]+m|[0-9]+(\.[0-9]+)?")
_PINNED_IMAGE = re.compile(r"\S+@sha256:[0-9a-f]{64}|[^\s@]+:(?!latest$)\w[\w.-]{0,127}", re.ASCII)


def _dns_label(value: str) -> str:
    if len(value) > 63 or not _DNS_LABEL.fullmatch(value):
        raise ValueError(
            "is no DNS label (RFC 1123). Fix: at most 63 of a-z, 0-9 and '-', starting with a letter or digit"
        )
    return value


def _dns_subdomain(value: str) -> str:
    if len(value) > 253 or not _DNS_SUBDOMAIN.fullmatch(value):
        raise ValueError(
            "is no DNS subdomain (RFC 1123). Fix: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both"
            " ends of each part"
        )
    return value


def _number_as_text(value: object) -> object:
    """Let `2` stand for `"2"`: YAML reads an unquoted quantity without a unit as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    if not _QUANTITY.fullmatch(value):
        raise ValueError("is no Kubernetes quantity. Fix: write a number with an optional unit, such as 500m, 2 or 4Gi")
    return value


def _cpu_quantity(value: str) -> str:
    if not _CPU_QUANTITY.fullmatch(value):
        raise ValueError("is no CPU quantity. Fix: write cores or millicores, such as 2, 0.5 or 500m")
    return value


def _pinned_image(value: str) -> str:
    if not _PINNED_IMAGE.fullmatch(value):
        raise ValueError(
            "is no pinned image reference. Fix: end it in a tag other than latest, or in @sha256: and the digest"
        )
    return value


def _known_instance_type(value: str) -> str:
    try:
        return instance_type(value).name
    except RefusalError as refusal:
        raise ValueError(f"{refusal.limit}. Fix: {refusal.fix}") from None


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
DnsSubdomain = Annotated[str, AfterValidator(_dns_subdomain)]
Quantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_quantity)]
CpuQuantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_cpu_quantity)]
PinnedImage = Annotated[str, AfterValidator(_pinned_image)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SimulatedNodes(_Model):
    """GPU nodes that exist only in the API server (kwok): for scheduling tests, never for real work."""

    instance_type: Annotated[str, AfterValidator(_known_instance_type)]
    """A name from infra/instance_types.py; decides GPUs, CPU, memory and labels."""
    count: int = Field(default=1, ge=1, le=5000)
    """How many of them."""


class ClusterSettings(_Model):
    """Which Kubernetes cluster the stack runs on."""

    kubeconfig: str | None = None
    """Path of a kubeconfig file. Default: the one that `make up` writes for its own local cluster."""
    context: str | None = None
    """Context in that file. Required with `kubeconfig`, so that nobody applies to the wrong cluster by accident."""
    simulated_nodes: tuple[SimulatedNodes, ...] = ()
    """Simulated GPU nodes to add (the cluster must run kwok; `make up`'s own does)."""

    @model_validator(mode="after")
    def _context_is_explicit(self) -> Self:
        if self.kubeconfig and not self.context:
            raise ValueError(
                f"names kubeconfig {self.kubeconfig!r} but no context. Fix: set cluster.context to the one to use"
            )
        if self.context and not self.kubeconfig:
            raise ValueError(
                f"names context {self.context!r} but no kubeconfig. Fix: set cluster.kubeconfig to the file with it"
            )
        return self

    @model_validator(mode="after")
    def _simulated_nodes_have_names_of_their_own(self) -> Self:
        types = [group.instance_type for group in self.simulated_nodes]
        repeated = sorted({name for name in types if types.count(name) > 1})
        if repeated:
            raise ValueError(f"simulated_nodes repeats {', '.join(repeated)}. Fix: one entry per type, with the sum")
        return self

    @property
    def is_own_local_cluster(self) -> bool:
        """Whether this is the cluster that `make up` starts."""
        return self.kubeconfig is None


class StorageSettings(_Model):
    """The two volumes every workload sees: /data/data (input) and /data/output (results)."""

    storage_class: DnsSubdomain | None = None
    """StorageClass of the volumes. Default: node folders on `make up`'s cluster, else the cluster's default class."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteMany"
    """ReadWriteOnce works only while all pods run on one node (kind, k3d: their default class offers nothing else)."""
    data_size_gib: int = Field(default=5, ge=1, le=65536)
    """Size of the input volume in GiB."""
    output_size_gib: int = Field(default=20, ge=1, le=65536)
    """Size of the output volume in GiB: checkpoints, logs, exported models."""


class QueueSettings(_Model):
    """One Volcano queue."""

    name: DnsLabel
    """Name of the queue in the cluster; `default` and `root` belong to Volcano."""
    weight: int = Field(default=1, ge=1, le=65535)
    """Share of the cluster against the other queues when all of them want more than there is."""
    capability: dict[str, Quantity] = Field(default_factory=dict)
    """Hard limit by resource name, such as {cpu: "8", nvidia.com/gpu: "4"}. Default: none."""
    reclaimable: bool = True
    """Whether other queues may take back what this one uses beyond its share."""


class SchedulingSettings(_Model):
    """Volcano and its queues."""

    install: bool = True
    """False where the cluster already runs Volcano with `preempt` and `reclaim` in its actions."""
    queues: tuple[QueueSettings, ...] = (QueueSettings(name="training"),)
    """Queues to create; jobs use the first one unless they name another."""

    @model_validator(mode="after")
    def _queues_are_usable(self) -> Self:
        names = [queue.name for queue in self.queues]
        if not names:
            raise ValueError("has no queues. Fix: name at least one under scheduling.queues")
        taken = {"default", "root"} & set(names)
        if taken:
            raise ValueError(f"queue name {taken.pop()!r} belongs to Volcano itself. Fix: choose another name")
        if len(set(names)) != len(names):
            raise ValueError(f"queue names repeat: {', '.join(names)}. Fix: give each queue its own name")
        return self


class ImageSettings(_Model):
    """Where the images come from."""

    trainer: PinnedImage | None = None
    """Full reference of the trainer image, where a registry holds it. Default: the locally built one."""
    trainer_variant: TrainerVariant = "cpu"
    """`gpu` holds what only a GPU needs (triton, all NVIDIA libraries); `cpu` leaves it out."""


class DigitsSettings(_Model):
    """The example every environment can run: train on handwritten digits, export, serve."""

    enabled: bool = True
    """Whether the stack declares the example at all."""
    workers: int = Field(default=2, ge=1, le=64)
    """Training pods; each runs one torchrun agent."""
    cpus_per_worker: CpuQuantity = "500m"
    """CPU request of one training pod."""
    epochs: int = Field(default=10, ge=1, le=100_000)
    """Passes over the training images."""
    batch_size: int = Field(default=32, ge=1, le=4096)
    """Images per step, over all workers; their number must divide it."""
    width: int = Field(default=16, ge=1, le=1024)
    """Channels of the model's first layer."""
    seed: int = Field(default=0, ge=0)
    """Seed of weights and data order."""
    replicas: int = Field(default=1, ge=0, le=64)
    """Serving pods."""

    @model_validator(mode="after")
    def _every_rank_gets_as_much(self) -> Self:
        if self.batch_size % self.workers:
            raise ValueError(
                f"batch_size = {self.batch_size}: is no multiple of workers = {self.workers}. Fix: use"
                f" {self.workers * max(1, self.batch_size // self.workers)}"
            )
        return self


class Settings(_Model):
    """The whole configuration of one stack."""

    namespace: DnsLabel = "athanor"
    """Namespace of the workloads. The platform's own parts live in `<part>-system` namespaces."""
    cluster: ClusterSettings = ClusterSettings()
    """Which Kubernetes cluster the stack runs on."""
    storage: StorageSettings = StorageSettings()
    """The volumes of the workloads."""
    scheduling: SchedulingSettings = SchedulingSettings()
    """Volcano and its queues."""
    images: ImageSettings = ImageSettings()
    """Where images come from."""
    digits: DigitsSettings = DigitsSettings()
    """The example workload."""

    @model_validator(mode="after")
    def _storage_exists_where_the_cluster_is_ours(self) -> Self:
        if self.cluster.is_own_local_cluster and self.storage.storage_class:
            raise ValueError(
                f"storage.storage_class = {self.storage.storage_class!r}: the local cluster has no StorageClass."
                " Fix: leave it out, or name your own cluster under cluster.kubeconfig"
            )
        return self


def parse_settings(raw: Mapping[str, object]) -> Settings:
    """Check a stack's configuration, given as key -> decoded value, and return it typed.

    Raises:
        RefusalError: listing every wrong key with its value, the limit and the fix.
    """
    try:
        return Settings.model_validate(dict(raw))
    except ValidationError as error:
        problems = [_describe(problem) for problem in error.errors()]
        raise SettingsError(problems) from None


class SettingsError(RefusalError):
    """One or more wrong keys in the stack's configuration; the message has one line for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        ValueError.__init__(self, "The stack's configuration cannot work:\n" + "\n".join(f"  - {p}" for p in problems))


def _describe(problem: ErrorDetails) -> str:
    key = "athanor:" + ".".join(str(part) for part in problem["loc"])
    if not problem["loc"]:  # two keys that do not fit each other: the message names both
        return "athanor:" + problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"{key}: no such key. Fix: {choices(str(problem['loc'][-1]), _valid_keys(problem['loc'][:-1]))}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error":
        message += f". Fix: give a value that fits; {key} is: {_description(problem['loc'])}"
    value = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r}"
    return f"{key}{value}: {message}"


def _valid_keys(location: tuple[int | str, ...]) -> list[str]:
    return list(_model_at(location).model_fields)


def _description(location: tuple[int | str, ...]) -> str:
    *parents, name = [part for part in location if isinstance(part, str)]
    field = _model_at(tuple(parents)).model_fields.get(name)
    return (field.description if field else None) or name


def _model_at(location: tuple[int | str, ...]) -> type[BaseModel]:
    """Follow field names from Settings down; stays at the last model where a plain dict or list goes deeper."""
    model: type[BaseModel] = Settings
    for name in location:
        field = model.model_fields.get(name) if isinstance(name, str) else None
        annotation: object = field.annotation if field else None
        arguments: tuple[object, ...] = getattr(annotation, "__args__", ())
        inner = arguments[0] if arguments else annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return model
