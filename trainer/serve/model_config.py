"""The serving configuration of a model: config.pbtxt, checked and reduced to what this server does.

Format: Triton Inference Server, "Model Configuration" and model_config.proto. Fields that would change results are
refused when they are not supported; those that only tune another server are named in `ignored`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from trainer.model_repository.layout import MODEL_FILE, variant_file
from trainer.serve import batching_config, datatypes, warmup_config
from trainer.serve.errors import ModelLoadError
from trainer.serve.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainer.serve.batching_config import Batching
    from trainer.serve.warmup_config import WarmupSample

triton = cast("Any", model_config_pb2)  # generated at run time from its descriptor: no types
_Message = Any

PLATFORM = "pytorch_libtorch"
_UNSUPPORTED = ("sequence_batching", "ensemble_scheduling", "batch_input", "batch_output")
_IGNORED = (
    "cc_model_filenames",
    "metric_tags",
    "model_operations",
    "model_repository_agents",
    "model_transaction_policy",
    "optimization",
    "parameters",
    "response_cache",
    "runtime",
)
_MOST_INSTANCES = 256
"""Each is a thread."""


@dataclass(frozen=True, kw_only=True)
class VersionPolicy:
    """Which of the versions on disk are served (Triton's version_policy)."""

    latest: int | None = 1
    """So many of the latest; None: all, or those of `specific`."""
    specific: frozenset[int] = frozenset()

    def allows(self, version: int) -> bool:
        """Return whether a version may be served at all."""
        return not self.specific or version in self.specific


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """The interface of one model."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int
    """0: the model has no batch dimension."""
    model_file: str
    is_any_format: bool
    """A file of torch.export may stand in for that of TorchScript: config.pbtxt names none."""
    version_policy: VersionPolicy
    batching: Batching
    """Which requests that wait together are run together."""
    instances: int
    """Batches run at the same time."""
    warmup: tuple[WarmupSample, ...]
    """Batches that a version runs before it is ready; empty: zeros of every batch size."""
    ignored: tuple[str, ...]
    """Fields that are set and have no effect here."""
    config: Any = field(repr=False, compare=False)
    """The whole of it, as Triton's ModelConfig: what clients get that ask for the model's configuration."""


def parse(text: str, model_name: str, only_version: int | None = None, variant: str | None = None) -> ModelSpec:
    """Read config.pbtxt.

    Args:
        text: Its content.
        model_name: The model's folder.
        only_version: Stands in for the file's version_policy.
        variant: Stands in for the file that it names as the model.

    Raises:
        ModelLoadError: not a model configuration, or one that this server cannot serve as it is meant.
    """
    config = triton.ModelConfig()
    try:
        text_format.Parse(text, config)
    except text_format.ParseError as error:
        raise ModelLoadError(f"config.pbtxt: not a Triton model configuration: {error}") from error
    _check(config, model_name)
    config.name = model_name
    inputs = _tensors("input", config.input, config.max_batch_size)
    return ModelSpec(
        name=model_name,
        inputs=inputs,
        outputs=_tensors("output", config.output, config.max_batch_size),
        max_batch_size=config.max_batch_size,
        model_file=variant_file(variant) if variant else config.default_model_filename or MODEL_FILE,
        is_any_format=variant is not None or not config.default_model_filename,
        version_policy=_version_policy(config, only_version),
        batching=batching_config.parse(config),
        instances=_instances(config),
        warmup=warmup_config.parse(config, inputs),
        ignored=_ignored(config),
        config=config,
    )


def _check(config: _Message, model_name: str) -> None:
    if config.name not in ("", model_name):
        raise ModelLoadError(f"config.pbtxt: name={config.name!r}: must be the folder's name, {model_name!r}")
    if config.platform != PLATFORM and config.backend != "pytorch":
        given = f"platform={config.platform!r} backend={config.backend!r}"
        raise ModelLoadError(f"config.pbtxt: {given}: must be platform {PLATFORM!r} or backend 'pytorch'")
    if config.max_batch_size < 0:
        raise ModelLoadError(f"config.pbtxt: max_batch_size={config.max_batch_size}: must be at least 0")
    file_name = config.default_model_filename
    if file_name in (".", "..") or "/" in file_name or "\0" in file_name:
        raise ModelLoadError(f"config.pbtxt: default_model_filename={file_name!r}: must be a file's name, no folders")
    present = {descriptor.name for descriptor, _ in config.ListFields()}
    for name in _UNSUPPORTED:
        if name in present:
            raise ModelLoadError(f"config.pbtxt: {name} is not supported. Fix: remove it or serve with Triton")
    if any(group.kind == triton.ModelInstanceGroup.KIND_GPU for group in config.instance_group):
        raise ModelLoadError("config.pbtxt: instance_group KIND_GPU: this server runs on CPUs. Fix: KIND_CPU or Triton")


def _instances(config: _Message) -> int:
    counts = [group.count for group in config.instance_group]
    # Triton takes a count of 0 for 1
    total = sum(count or 1 for count in counts) or 1
    if total > _MOST_INSTANCES or any(count < 0 for count in counts):
        raise ModelLoadError(f"config.pbtxt: instance_group count {counts}: must be 1 to {_MOST_INSTANCES} together")
    return total


def _tensors(kind: str, tensors: Iterable[_Message], max_batch_size: int) -> tuple[TensorSpec, ...]:
    specs = tuple(_tensor(kind, tensor, batched=max_batch_size > 0) for tensor in tensors)
    names = [spec.name for spec in specs]
    if not names or not all(names) or len(set(names)) != len(names):
        raise ModelLoadError(f"config.pbtxt: {kind}s {names}: at least one is needed, each with a name of its own")
    return specs


def _tensor(kind: str, tensor: _Message, *, batched: bool) -> TensorSpec:
    where = f"config.pbtxt: {kind} {tensor.name!r}"
    type_name = datatypes.triton_name(tensor.data_type)
    datatype = datatypes.from_triton(type_name)
    if datatype is None:
        raise ModelLoadError(f"{where}: data_type {type_name}: must be one of {datatypes.SUPPORTED_NAMES}")
    dims = tuple(tensor.dims)
    if any(size == 0 or size < -1 for size in dims) or not (dims or batched):
        raise ModelLoadError(f"{where}: dims {list(dims)}: sizes must be at least 1, or -1 for any size")
    is_squeezed = tensor.HasField("reshape")
    if tensor.is_shape_tensor or (is_squeezed and (dims != (1,) or list(tensor.reshape.shape) or not batched)):
        allowed = "only dims: [1] reshape { shape: [] } with batches, one value for each row"
        raise ModelLoadError(f"{where}: reshape or shape tensor: {allowed}. Fix: dims as the model has them")
    if datatype.name == datatypes.BYTES and len(dims) - is_squeezed + batched != 1:
        fix = "dims: [1] reshape { shape: [] }" if batched else "dims: [-1]"
        raise ModelLoadError(f"{where}: dims {list(dims)}: TYPE_STRING is a list of text to the model. Fix: {fix}")
    if kind == "input" and (tensor.optional or tensor.allow_ragged_batch):
        raise ModelLoadError(f"{where}: optional and ragged inputs are not supported. Fix: send each, in one size")
    shape = (-1, *dims) if batched else dims
    return TensorSpec(name=tensor.name, datatype=datatype, shape=shape, is_squeezed=is_squeezed)


def _version_policy(config: _Message, only_version: int | None) -> VersionPolicy:
    if only_version is not None:
        return VersionPolicy(latest=None, specific=frozenset({only_version}))
    policy = config.version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return VersionPolicy(latest=None)
        case "specific":
            if not policy.specific.versions:
                raise ModelLoadError("config.pbtxt: version_policy specific: names no version")
            return VersionPolicy(latest=None, specific=frozenset(policy.specific.versions))
        case _:
            return VersionPolicy(latest=policy.latest.num_versions or 1)


def _ignored(config: _Message) -> tuple[str, ...]:
    return tuple(sorted({descriptor.name for descriptor, _ in config.ListFields()}.intersection(_IGNORED)))
