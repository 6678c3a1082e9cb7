"""One loaded model: from a verified file to a callable on NumPy arrays."""

from __future__ import annotations

import gc
import logging
import re
from typing import TYPE_CHECKING, cast

import torch

from trainer.model_repository import comparison, model_file, torch_error
from trainer.model_repository.layout import TORCH_EXPORT_SUFFIX
from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trainer.model_repository.model_file import Program
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec

logger = logging.getLogger(__name__)

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

_FOREIGN_OPERATOR = re.compile(
    r"Unknown builtin op: (?!aten::|prim::)|Failed deserializing node Node\(target='torch\.ops\.(?!aten\.|prims?\.)"
)
"""What TorchScript's compiler and torch.export say of those of other packages."""

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
        names = [tensor.name for tensor in spec.outputs]
        self._output_places = _places("outputs", names) or list(range(len(names)))
        """In what the model returns, where that has no names."""
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
        """Return the outputs in the order of the configuration.

        A dict, or a named tuple that has the names of the configuration, gives them by name.
        """
        names = [tensor.name for tensor in self.spec.outputs]
        named = _by_name(result)
        outputs: list[object] = []
        if named.keys() == set(names):
            outputs = [named[name] for name in names]
        elif not isinstance(result, dict):
            given = list(cast("Sequence[object]", result)) if isinstance(result, (tuple, list)) else [result]
            if len(given) == len(names):
                outputs = [given[place] for place in self._output_places]
        if not outputs or not all(isinstance(output, torch.Tensor) for output in outputs):
            types = _types(cast("object", result))
            raise ModelLoadError(f"the model returns {types}; config.pbtxt promises a tensor for each of {names}")
        return cast("list[torch.Tensor]", outputs)


def _by_name(result: object) -> dict[str, object]:
    """Return the outputs of a dict or a named tuple; none where they have no names."""
    if isinstance(result, dict):
        return cast("dict[str, object]", result)
    names = cast("Sequence[str]", getattr(result, "_fields", ()))
    return dict(zip(names, cast("Sequence[object]", result), strict=True)) if names else {}


def _types(result: object) -> dict[str, str] | list[str]:
    if isinstance(result, dict):
        return {name: type(item).__name__ for name, item in _by_name(cast("object", result)).items()}
    items = cast("Sequence[object]", result) if isinstance(result, (tuple, list)) else [result]
    return [type(item).__name__ for item in items]


def _refuse(*_arguments: object) -> object:
    raise RuntimeError("the version is released")


def load(path: Path, spec: ModelSpec, version: int, *, is_optimized: bool = False) -> LoadedModel:
    """Read a model file.

    Args:
        path: The file.
        spec: How it is called.
        version: Its number.
        is_optimized: Whether to use torch's optimisation for this machine's CPU, if the answers are the file's then.

    Raises:
        ModelLoadError: the file is not a model that can be called as the configuration says.
    """
    try:
        program = model_file.load(path)
    except (RuntimeError, ValueError) as error:
        # torch explains at length how files get damaged
        why = torch_error.reason(error).partition(" This is an internal miniz error")[0].rstrip(".")
        if "allocate memory" in why:
            fix = "Fix: more memory for the model, max_memory_mib or the pod's limit"
            raise ModelLoadError(f"{path.name}: takes more memory than there is: {why}. {fix}") from error
        fix = "save it with torch.jit.save of this torch or an older one"
        if _FOREIGN_OPERATOR.match(why):
            fix = "operators of torch and torchvision alone, since the server has those of no other package"
        elif path.suffix == TORCH_EXPORT_SUFFIX:
            fix = "save it with torch.export.save of this torch"
        raise ModelLoadError(
            f"{path.name}: not a model that torch {torch.__version__} can load: {why}. Fix: {fix}"
        ) from error
    frozen = LoadedModel(spec, version, program)
    return _optimized(path, frozen) if is_optimized else frozen


def _optimized(path: Path, frozen: LoadedModel) -> LoadedModel:
    """Return the model as torch optimises it for this machine's CPU where its answers are right, else the frozen one.

    The exporter compared them on its own machine: other CPUs have other kernels.
    """
    try:
        optimized = LoadedModel(frozen.spec, frozen.version, model_file.load_optimized(path))
        cases = [comparison.case(_on_tensors(frozen), batch) for batch in _random_batches(frozen.spec)]
        why = comparison.difference(_on_tensors(optimized), cases)
        if not why:
            return optimized
    except Exception as error:  # noqa: BLE001  whatever torch raises for one model; the frozen one answers
        why = f"fails: {torch_error.reason(error)}"
    logger.warning(
        "%s version %d: served as it is in the file, not optimised for this CPU: the optimised program %s",
        *(frozen.spec.name, frozen.version, why),
    )
    return frozen


def _random_batches(spec: ModelSpec) -> Iterator[list[torch.Tensor]]:
    """Return random batches for a model as the exporter describes it: rows of float32, of a known size.

    Raises:
        ModelLoadError: it is another one. Random integers may be indices of nothing, and sizes may have to fit
            together.
    """
    shapes = [tensor.shape[1:] for tensor in spec.inputs]
    if not spec.max_batch_size or any(
        tensor.datatype.name != "FP32" or -1 in tensor.shape[1:] for tensor in spec.inputs
    ):
        raise ModelLoadError("only batches of FP32 inputs with fixed dims can be compared")
    return comparison.random_batches(shapes, [size for size in comparison.BATCH_SIZES if size <= spec.max_batch_size])


def _on_tensors(model: LoadedModel) -> Callable[..., list[Array]]:
    return lambda *tensors: model.infer([tensor.numpy() for tensor in tensors])


def _argument_order(arguments: list[str], spec: ModelSpec) -> list[int]:
    """Return, for each argument of forward, its index in the configuration's inputs.

    As Triton's PyTorch backend does: by argument name, else by the number of `NAME__0`, else by order.
    """
    names = [tensor.name for tensor in spec.inputs]
    if len(arguments) != len(names):
        raise ModelLoadError(f"the model takes {arguments}; config.pbtxt has the inputs {names}")
    if set(names) == set(arguments):
        return [names.index(argument) for argument in arguments]
    order = list(range(len(names)))
    places = _places("inputs", names)
    return [places.index(place) for place in order] if places else order


def _places(kind: str, names: list[str]) -> list[int]:
    """Return the numbers of names that all end in one, as `NAME__0`; none where a name has no number."""
    numbers = [number if separator else "" for _, separator, number in (name.rpartition("__") for name in names)]
    if not all(number.isdecimal() for number in numbers):
        return []
    if sorted(numbers) != sorted(str(place) for place in range(len(names))):
        allowed = f"must be each of {list(range(len(names)))} once"
        raise ModelLoadError(f"config.pbtxt: {kind} {names}: the numbers behind __ are places: {allowed}")
    return [int(number) for number in numbers]


def _checked(tensor: torch.Tensor, spec: TensorSpec) -> Array:
    if tensor.dtype != _TORCH_TYPES[spec.datatype.name]:
        raise ModelLoadError(f"output {spec.name!r} is {tensor.dtype}; config.pbtxt says {spec.datatype.name}")
    return tensor.contiguous().numpy()
