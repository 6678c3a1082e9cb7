"""The labelled data by which a trained model is evaluated: a run's data set, or an .npz file."""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainer.common.validation import SettingsError
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.data.registry import dataset_of
from trainer.pytorch.models.registry import model_of
from trainer.pytorch.result import NOT_A_CLASSIFIER
from trainer.pytorch.source_error import SourceError
from trainer.pytorch.splits import ReadSamples, load_splits
from trainer.pytorch.task import Task
from trainer.pytorch.trained_model import Splits
from trainer.training.digits import DataError, refuse_labels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from trainer.pytorch.measurement import InBatches
    from trainer.pytorch.models.model_config import ModelConfig

_ARRAYS = ("training_inputs", "training_labels", "held_out_inputs", "held_out_labels")


class SourceData:
    """Held-out samples, and the training ones where all are in memory.

    Attributes:
        splits: both; None where the held-out ones are read when they are needed.
        class_names: of the labels, in their order; empty where there are none.
    """

    def __init__(self, path: Path, samples: Splits | ReadSamples) -> None:
        """Take the samples; `path` is for messages."""
        self.class_names = samples.class_names
        self._path = path
        self._samples = samples
        self.splits = samples if isinstance(samples, Splits) else None

    @property
    def held_out(self) -> InBatches:
        """The held-out samples, whatever their labels are."""
        samples = self._samples
        return samples.held_out if isinstance(samples, Splits) else _Explained(self._path, samples, classes=None)

    def checked(self, classes: int) -> InBatches:
        """Return the held-out samples, whose labels are those of a network with so many outputs.

        Raises:
            SourceError: some label is not, of those in memory; while they are read, of the others.
        """
        samples = self._samples
        if isinstance(samples, ReadSamples):
            return _Explained(self._path, samples, classes)
        try:
            for name, each in (("training_labels", samples.training), ("held_out_labels", samples.held_out)):
                refuse_labels(each.labels, classes, of=f"data={self._path}: {name}", fix=_fewer(classes))
        except DataError as error:
            raise SourceError(str(error)) from error
        return samples.held_out


class _Explained:
    """Samples that raise `SourceError` when one cannot be read, or has a label that a network does not know."""

    def __init__(self, path: Path, samples: ReadSamples, classes: int | None) -> None:
        self._path = path
        self._samples = samples
        self._classes = classes

    def __len__(self) -> int:
        return len(self._samples)

    def batches(self, size: int) -> Iterator[Samples]:
        begin = 0
        try:
            for samples in self._samples.batches(size):
                if self._classes is not None:
                    of, fix = f"data={self._path}: held-out samples", _fewer(self._classes)
                    refuse_labels(samples.labels, self._classes, of=of, first=begin, fix=fix)
                begin += len(samples)
                yield samples
        except DataError as error:
            raise SourceError(str(error)) from error


def run_model(settings: dict[str, Any]) -> ModelConfig:
    """Return the model of a run with these settings.

    Raises:
        SourceError: it is not here, or is not published.
    """
    try:
        model = model_of(settings)
    except SettingsError as error:
        raise SourceError(f"the run's {error}, or --network=FILE.py:NAME and an .npz file as --data") from error
    if model.task is not Task.CLASSIFICATION:
        raise SourceError(f"model={model.model}: cannot be published: {NOT_A_CLASSIFIER}")
    return model


def read_data(path: Path, settings: dict[str, Any], *, whole: bool) -> SourceData:
    """Return the data set of a run with these settings, or what an .npz file has.

    Args:
        path: Folder of the data set, or the file.
        settings: The run's.
        whole: Whether all samples of a data set are wanted in memory, as those of a file are in any case.

    Raises:
        SourceError: it is missing or damaged.
    """
    return _read_data_set(path, settings, whole=whole) if path.is_dir() else SourceData(path, _read_file(path))


def _read_file(path: Path) -> Splits:
    try:
        # NumPy does not close a file that it cannot read
        with path.open("rb") as file:
            archive: Any = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise TypeError("one array, as np.save writes it")  # noqa: TRY301  reported as NumPy's own
            with archive:
                arrays = {name: archive[name] for name in _ARRAYS}
    except (OSError, EOFError, TypeError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise SourceError(
            f"data={path}: {error}. Fix: np.savez(path, {', '.join(f'{n}=…' for n in _ARRAYS)})"
        ) from error
    splits = Splits(
        training=Samples(
            inputs=_tensor(path, arrays, "training_inputs"), labels=_tensor(path, arrays, "training_labels")
        ),
        held_out=Samples(
            inputs=_tensor(path, arrays, "held_out_inputs"), labels=_tensor(path, arrays, "held_out_labels")
        ),
    )
    for kind, samples in (("training", splits.training), ("held_out", splits.held_out)):
        if samples.inputs.ndim == 0 or samples.labels.ndim != 1:
            shapes = f"{kind}_inputs {list(samples.inputs.shape)} and {kind}_labels {list(samples.labels.shape)}"
            raise SourceError(f"data={path}: {shapes}; must be [N, …] and [N]")
        if len(samples.inputs) != len(samples) or len(samples) < 2:
            counts = f"{len(samples.inputs)} inputs and {len(samples)} labels"
            raise SourceError(f"data={path}: {kind} has {counts}; must be as many, at least 2")
    return splits


def _read_data_set(data_dir: Path, settings: dict[str, Any], *, whole: bool) -> SourceData:
    input_shape = run_model(settings).input_shape
    try:
        data = dataset_of(settings, data_dir)
        if whole:
            return SourceData(data_dir, load_splits(data, input_shape))
        return SourceData(data_dir, ReadSamples(data.open("held_out", input_shape)))
    except DataError as error:
        raise SourceError(str(error)) from error
    except SettingsError as error:
        raise SourceError(f"the run's {error}, or an .npz file as --data") from error


def _tensor(path: Path, arrays: dict[str, Any], name: str) -> Tensor:
    array, expected = arrays[name], "int64" if name.endswith("labels") else "float32"
    if str(array.dtype) != expected:
        raise SourceError(f"data={path}: {name} is {array.dtype}. Fix: {name}.astype('{expected}')")
    if array.ndim and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise SourceError(f"data={path}: {name}[{row}] has NaN or infinity. Fix: leave such samples out")
    return torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType]


def _fewer(classes: int) -> str:
    return f"Fix: labels of the {classes} outputs of the network"
