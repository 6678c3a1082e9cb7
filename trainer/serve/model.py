"""One loaded model: from a verified file to a callable on NumPy arrays."""

from __future__ import annotations

import gc
import logging
import re
from typing import TYPE_CHECKING

import torch

from trainer.model_repository import comparison, model_file, torch_error
from trainer.model_repository.layout import TORCH_EXPORT_SUFFIX
from trainer.serve.datatypes import BYTES
from trainer.serve.errors import ModelLoadError
from trainer.serve.model_interface import Arguments, Outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trainer.model_repository.model_file import Program
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array

logger = logging.getLogger(__name__)

_FOREIGN_OPERATOR = re.compile(
    r"Unknown builtin op: (?!aten::|prim::)|Failed deserializing node Node\(target='torch\.ops\.(?!aten\.|prims?\.)"
)
"""Messages of TorchScript's compiler and torch.export about operators of other packages."""

_CPU_THREADS = torch.get_num_threads()
"""Torch's number of threads from OMP_NUM_THREADS: not more than there are physical cores."""


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
        self._has_cycles = program.has_cycles
        self._arguments = Arguments(program, spec)
        self._outputs = Outputs(spec)
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
            return self._outputs.arrays(self._arguments.call(self._call, inputs))

    def release(self) -> None:
        """Free the weights now: what is left refers to itself, and Python looks for such circles very seldom."""
        self._call = _refuse
        if self._has_cycles:
            gc.collect()


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
    if path.suffix == TORCH_EXPORT_SUFFIX and any(
        tensor.datatype.name == BYTES for tensor in (*spec.inputs, *spec.outputs)
    ):
        raise ModelLoadError(f"{path.name}: TYPE_STRING: torch.export has no text. Fix: numbers, or TorchScript")
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
            fix = "save it with torch.export.save of this torch, or compile it with this one"
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
        cases = [comparison.case(_on_tensors(frozen), batch) for batch in _random_inputs(frozen.spec)]
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


def _random_inputs(spec: ModelSpec) -> Iterator[list[torch.Tensor]]:
    """Return random inputs for a model as the exporter describes it: float32 of a known size.

    Raises:
        ModelLoadError: it is another one. Random integers may be indices of nothing, and sizes may have to fit
            together.
    """
    shapes = [tensor.shape[1 if spec.max_batch_size else 0 :] for tensor in spec.inputs]
    if any(tensor.datatype.name != "FP32" for tensor in spec.inputs) or any(-1 in shape for shape in shapes):
        raise ModelLoadError("only FP32 inputs with fixed dims can be compared")
    if not spec.max_batch_size:
        return comparison.random_calls(shapes)
    return comparison.random_batches(shapes, [size for size in comparison.BATCH_SIZES if size <= spec.max_batch_size])


def _on_tensors(model: LoadedModel) -> Callable[..., list[Array]]:
    def call(*inputs: torch.Tensor) -> list[Array]:
        outputs = model.infer([tensor.numpy() for tensor in inputs])
        return [spec.datatype.numbers(output) for output, spec in zip(outputs, model.spec.outputs, strict=True)]

    return call
