"""The interface of a data set to the training loop: samples by number, and a configuration."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from trainer.common.validation import at_least
from trainer.pytorch.task import Task
from trainer.training.digits import DataError, refuse_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from trainer.training.digits import SplitName

_MAX_BYTE = 255.0


def _as_numbers(inputs: Tensor) -> Tensor:
    """Return bytes as float32 from 0 to 1, and anything else as it is."""
    if inputs.dtype != torch.uint8:
        return inputs
    # NumPy gives an only channel strides of its own, which the gradients of a convolution would follow
    return inputs.to(torch.float32, memory_format=torch.contiguous_format) / _MAX_BYTE


def _refuse_targets(inputs: object, targets: object) -> None:
    """Refuse what is not one int64 target, or row of them, for each sample; no values are read: a GPU would wait.

    Raises:
        DataError: naming the fix.
    """
    if not isinstance(inputs, torch.Tensor) or not isinstance(targets, torch.Tensor):
        given = f"{type(inputs).__name__} and {type(targets).__name__}"
        raise DataError(f"inputs and targets are {given}; must be tensors. Fix: torch.from_numpy, or torch.stack")
    if targets.dtype != torch.int64:
        raise DataError(f"targets are {targets.dtype}; must be torch.int64. Fix: .long() of the numbers of classes")
    if inputs.shape[:1] != targets.shape[:1]:
        given = f"inputs {list(inputs.shape)} and targets {list(targets.shape)}"
        raise DataError(f"{given}; must have a target for each sample. Fix: as many of both")


class DamagedSampleError(DataError):
    """One sample cannot be used, as opposed to its volume, which may come back.

    Attributes:
        number: of the sample.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.number = number

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Inputs [N, ...], images as float32 or as bytes, or int64 tokens, and targets int64 [N, ...]."""

    inputs: Tensor
    targets: Tensor
    damaged: tuple[DamagedSampleError, ...] = ()
    """Samples that others replace, each in the first batch of a process that should have it."""

    def __post_init__(self) -> None:
        _refuse_targets(self.inputs, self.targets)

    def pin_memory(self) -> Batch:
        """Return it in memory from which GPUs copy by themselves; what is on one stays there."""
        inputs, targets = (each.pin_memory() if each.device.type == "cpu" else each for each in self.tensors)
        return replace(self, inputs=inputs, targets=targets)

    def to(self, device: torch.device) -> Batch:
        """Return it on a device, bytes as float32 from 0 to 1; the copy from pinned memory does not hold up the caller.

        Bytes become numbers there: they travel in a quarter of the time, and of the shared memory.
        """
        inputs, targets = (each.to(device, non_blocking=True) for each in self.tensors)
        return replace(self, inputs=_as_numbers(inputs), targets=targets)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets."""
        return self.inputs, self.targets


class Dataset(ABC):
    """One split: samples that are numbered from 0.

    The samples of a number are the same on every rank and in every process, for a run that resumes reads them again.

    Attributes:
        sample_shape: the shape of one input.
        classes: how many values a target may have.
        class_names: what these are called, in their order; empty where the data do not say.
        tokens_per_sample: tokens that a model predicts in one sample; None for images.
        notes: what users should know of how it was read.
    """

    sample_shape: tuple[int, ...]
    classes: int
    class_names: tuple[str, ...] = ()
    tokens_per_sample: int | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Tensor) -> Batch:
        """Return the samples of these numbers, int64 [N] on the CPU, in their order.

        Raises:
            DamagedSampleError: a sample cannot be used.
            DataError: a file cannot be read.
        """

    def name(self, number: int) -> str:
        """Return a sample's name for people, such as its file."""
        return f"sample {number}"

    def on(self, device: torch.device) -> Dataset:  # noqa: ARG002  most data sets are too large for a device
        """Return the data set with what fits there already on the device."""
        return self


class InMemoryDataset(Dataset):
    """Samples in two tensors."""

    def __init__(self, inputs: Tensor, targets: Tensor, *, classes: int, class_names: tuple[str, ...] = ()) -> None:
        """Take the samples.

        Args:
            inputs: [N, ...]; bytes are images, which are returned as float32 from 0 to 1.
            targets: int64 [N, ...].
            classes: How many values a target may have.
            class_names: What these are called.

        Raises:
            DataError: a label is not one of the classes, or there is not one for each sample.
        """
        _refuse_targets(inputs, targets)
        if targets.ndim == 1:
            refuse_labels(targets.numpy(force=True), classes)
        self.sample_shape = tuple(inputs.shape[1:])
        self.classes = classes
        self.class_names = class_names
        self._inputs = inputs
        self._targets = targets

    def __len__(self) -> int:
        return len(self._targets)

    def batch(self, indices: Tensor) -> Batch:
        """See `Dataset.batch`; on the device of the samples."""
        device = self._inputs.device
        if device.type == "cuda":
            # from other memory the host would wait for all that the GPU has been given
            indices = indices.pin_memory()
        indices = indices.to(device, non_blocking=True)
        return Batch(inputs=_as_numbers(self._inputs[indices]), targets=self._targets[indices])

    def on(self, device: torch.device) -> InMemoryDataset:
        """See `Dataset.on`: all of it."""
        moved = copy.copy(self)  # whose labels are checked: from a GPU they would have to come back for that
        vars(moved).update(_inputs=self._inputs.to(device), _targets=self._targets.to(device))
        return moved


@dataclass(frozen=True, kw_only=True)
class DataConfig(ABC):
    """Base of the data sets' configurations; what a registered data set implements."""

    dataset: str
    """A name, or FILE.py:NAME of a file of yours; `--dataset NAME --help` explains the arguments of another."""
    data_dir: Path
    """Folder of the input data; only read."""
    batch_size: int = 64
    """Samples of one optimizer step over all ranks. The number of ranks, in an elastic job each possible one, must
    divide it."""

    task: ClassVar[Task] = Task.CLASSIFICATION
    """Its task."""
    takes_cores: ClassVar[bool] = False
    """Whether reading is work for processes of its own on machines with GPUs, unless another number is asked for."""
    in_memory: ClassVar[bool] = False
    """Whether a rank holds all samples in memory, so that compressed variants can be built from them."""

    def __post_init__(self) -> None:
        at_least("batch_size", self.batch_size, 1)

    @property
    def workers(self) -> int | None:
        """Processes that read for each rank; 0 reads in the rank's own, None leaves it to `takes_cores`."""
        return 0

    @property
    def most_damaged(self) -> int:
        """Damaged samples that may be left out."""
        return 0

    @abstractmethod
    def open(self, split: SplitName, input_shape: Sequence[int]) -> Dataset:
        """Return a split.

        Args:
            split: Which one.
            input_shape: The shape that the model reads, to cut or scale samples to where the format leaves it open.

        Raises:
            DataError: files are missing or damaged; the message says which and what to do.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return 64 hex digits that are equal for two runs only if they see the same samples.

        Raises:
            DataError: files are missing.
        """

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide which samples a model sees in which order, as JSON values."""
        own = dataclasses.asdict(self)
        for name in _NOT_THE_SAMPLES:
            own.pop(name, None)
        return {**own, "dataset_sha256": self.fingerprint()}


@dataclass(frozen=True, kw_only=True)
class FileDataConfig(DataConfig):
    """Base of the data sets whose samples are read from files while training runs."""

    data_workers: int | None = None
    """Processes that read batches ahead for each rank; 0 reads each batch in the rank's own process when it is needed.
    The order of the samples is the same for any number. Default: on GPUs one less than the cores of each rank, at most
    8 and as many as /dev/shm has room for; on CPUs, and for tokens, none."""
    skip_damaged: int = 0
    """Most damaged samples, over all ranks, that are left out from a start of the run to its end: each is reported, and
    the next one takes its place. One more ends the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_workers is not None:
            at_least("data_workers", self.data_workers, 0)
        at_least("skip_damaged", self.skip_damaged, 0)

    takes_cores: ClassVar[bool] = True

    @property
    def workers(self) -> int | None:
        """See `DataConfig.workers`."""
        return self.data_workers

    @property
    def most_damaged(self) -> int:
        """See `DataConfig.most_damaged`."""
        return self.skip_damaged


_NOT_THE_SAMPLES = ("data_dir", "data_workers", "skip_damaged")
"""A run may resume with other values of these."""
