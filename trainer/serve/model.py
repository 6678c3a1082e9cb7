"""One loaded model: from a verified file to a callable on NumPy arrays."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, cast

import torch

from trainer.model_repository import model_file
from trainer.model_repository.layout import TORCH_EXPORT_SUFFIX
from trainer.serve.errors import ModelLoadError, last_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.model_repository.model_file import Program
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec

_TORCH_TYPES = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "FP32": torch.float32,
    "FP64": torch.float64,
}
"""By the protocol's name. Here, not with the other spellings: a server of several models does without torch."""

_CPU_THREADS = torch.get_num_threads()
"""What torch made of OMP_NUM_THREADS: not more than there are physical cores."""


class LoadedModel:
    """A version of a model, ready to be called from any thread."""

    problem = ""
    lost = ""

    def __init__(self, spec: ModelSpec, version: int, program: Program) -> None:
        self.spec = spec
        self.version = version
        self.load_seconds = 0.0
        """From the file on disk to the end of the warm-up; set by who loads it, as is the next."""
        self.warmup_seconds = 0.0
        self._call = program.call
        self._argument_order = _argument_order(list(program.arguments), spec)
        self._cpu_threads = max(1, _CPU_THREADS // spec.instances)
        """Of each call, as all instances call at once."""

    def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model on arrays in the order of the configuration; returns its outputs in that order.

        The inputs must be writable and aligned.

        Raises:
            RuntimeError: the model failed on these values.
            ModelLoadError: the outputs are not what the configuration promises.
        """
        # OpenMP has a number for each calling thread, and begins with the last one that any thread set
        if torch.get_num_threads() != self._cpu_threads:
            torch.set_num_threads(self._cpu_threads)
        with torch.inference_mode():
            arguments = [torch.from_numpy(inputs[index]) for index in self._argument_order]  # pyright: ignore[reportUnknownMemberType]
            result: object = self._call(*arguments)
        outputs = self._outputs(result)
        return [_checked(tensor, spec) for tensor, spec in zip(outputs, self.spec.outputs, strict=True)]

    def release(self) -> None:
        """Free the weights now: what is left refers to itself, and Python looks for such circles very seldom."""
        self._call = _refuse
        if self.spec.model_file.endswith(TORCH_EXPORT_SUFFIX):
            gc.collect()  # its program has circles of its own

    def _outputs(self, result: object) -> list[torch.Tensor]:
        outputs = list(cast("Sequence[object]", result)) if isinstance(result, (tuple, list)) else [result]
        if len(outputs) != len(self.spec.outputs) or not all(isinstance(item, torch.Tensor) for item in outputs):
            types = [type(item).__name__ for item in outputs]
            names = [spec.name for spec in self.spec.outputs]
            raise ModelLoadError(f"the model returns {types}; config.pbtxt promises a tensor for each of {names}")
        return cast("list[torch.Tensor]", outputs)


def _refuse(*_arguments: object) -> object:
    raise RuntimeError("the version is released")


def load(path: Path, spec: ModelSpec, version: int) -> LoadedModel:
    """Read a model file and prepare it for inference on this machine's CPU.

    Raises:
        ModelLoadError: the file is not a model that can be called as the configuration says.
    """
    try:
        program = model_file.load(path)
    except (RuntimeError, ValueError) as error:
        # torch explains at length how files get damaged
        why = last_line(error).partition(" This is an internal miniz error")[0].rstrip(".")
        is_exported = path.suffix == TORCH_EXPORT_SUFFIX
        writer = "torch.export.save of this torch" if is_exported else "torch.jit.save of this torch or an older one"
        raise ModelLoadError(
            f"{path.name}: not a model that torch {torch.__version__} can load: {why}. Fix: save it with {writer}"
        ) from error
    return LoadedModel(spec, version, program)


def _argument_order(arguments: list[str], spec: ModelSpec) -> list[int]:
    """Return, for each argument of forward, its index in the configuration's inputs.

    As Triton's PyTorch backend does: by argument name, else by the suffix of `NAME__0`, else by order.
    """
    names = [tensor.name for tensor in spec.inputs]
    if len(arguments) != len(names):
        raise ModelLoadError(f"the model takes {arguments}; config.pbtxt has the inputs {names}")
    if set(names) == set(arguments):
        return [names.index(argument) for argument in arguments]
    suffixes = [name.rpartition("__")[2] for name in names]
    if sorted(suffixes) == sorted(str(place) for place in range(len(names))):
        return [suffixes.index(str(place)) for place in range(len(names))]
    return list(range(len(names)))


def _checked(tensor: torch.Tensor, spec: TensorSpec) -> Array:
    if tensor.dtype != _TORCH_TYPES[spec.datatype.name]:
        raise ModelLoadError(f"output {spec.name!r} is {tensor.dtype}; config.pbtxt says {spec.datatype.name}")
    return tensor.contiguous().numpy()
