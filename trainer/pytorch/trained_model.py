"""A trained model on its way to the model repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainer.model_repository.layout import EXPORTED_FILE, MODEL_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from trainer.pytorch.compression.samples import Samples
    from trainer.pytorch.measurement import InBatches


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """An input or output of the served model; of one that takes batches, `shape` is that of a sample."""

    name: str
    shape: tuple[int, ...]
    """-1 is any size."""
    datatype: str = "FP32"
    """Datatype in the terms of the Open Inference Protocol."""

    def to_manifest(self, *, is_batched: bool) -> dict[str, Any]:
        """Return it in the terms of the Open Inference Protocol."""
        batch = [-1] if is_batched else []
        return {"name": self.name, "datatype": self.datatype, "shape": [*batch, *self.shape]}


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Labelled data: what compression learns from, and what it is judged by."""

    training: Samples
    held_out: Samples
    class_names: tuple[str, ...] = ()
    """Names of the labels, in their order; empty where the data have none."""


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """The model to publish, and its origin."""

    module: nn.Module
    """The model on the CPU, in evaluation mode."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    samples: Sequence[Sequence[Tensor]]
    """Real inputs of calls on which the file must agree with `module`, each with a tensor per input; batches have two
    rows or more. Other dimensions in which calls differ take any size."""
    run_name: str
    step: int
    is_batched: bool = True
    """Whether inputs and outputs have a row for each sample; else a call answers one request."""
    held_out: InBatches | None = None
    """Labelled samples that decide the accuracy of each file; None where there is none, as of a model of no classes."""
    training: Samples | None = None
    """Labelled samples that variants learn from."""
    commit: str | None = None
    """Commit of the code that trained it, 40 hex digits; None where the code came with the image."""
    class_names: tuple[str, ...] = ()
    """Names in the order of the outputs; empty where the data have none."""
    method: Literal["script", "trace", "export"] = "script"
    """The method by which it becomes TorchScript or a program of torch.export."""
    source_files: dict[str, str] | None = None
    """SHA-256 of the files that it was read from, where run and step do not identify it."""

    @property
    def model_file(self) -> str:
        """The name of its file."""
        return EXPORTED_FILE if self.method == "export" else MODEL_FILE
