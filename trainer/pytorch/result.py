"""The result of a finished run: its model in the repository, and `result.json`, which a later start reads."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from trainer.common.files import fix_of, read_json, write_json_atomically
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.model_files import VERIFIED_SAMPLES
from trainer.pytorch.parallel.state import module_with
from trainer.pytorch.splits import ReadSamples, load_splits
from trainer.pytorch.task import Task
from trainer.pytorch.trained_model import TensorSpec, TrainedModel

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from torch import Tensor

    from trainer.pytorch.config import TrainConfig
    from trainer.pytorch.data.dataset import Dataset


NOT_A_CLASSIFIER = (
    "it is a language model: the model repository is for classifiers, whose inputs are float32 and whose outputs are "
    "logits [N, classes]; the parameters are in the run's checkpoints"
)
"""Reason why a model is not published."""

_MEASURED_SAMPLES = 10_000
"""Most held-out samples that decide the accuracy of a file, on the CPU, while the other ranks wait."""

SOURCE_RECORD = "source.json"
"""File of `trainer.source` in the run's folder with the commit that all pods of a job run."""


def source_commit(run: Path) -> str | None:
    """Return the commit of the code of a run, or None where its code came with the image."""
    return (read_json(run / SOURCE_RECORD) or {}).get("commit")


def read_result(path: Path) -> dict[str, Any] | None:
    """Return the result of a run, or None where there is none, or a file that is not a result."""
    result = read_json(path)
    return result if result and result.keys() >= {"settings", "step", "version"} else None


def is_published(config: TrainConfig) -> bool:
    """Return whether a run ends with its model in the repository: whether one rank must hold the whole of it."""
    return config.model.task is Task.CLASSIFICATION


def publish_result(  # noqa: PLR0913  a result is all of it
    config: TrainConfig,
    settings: dict[str, Any],
    whole_model: dict[str, Tensor] | None,
    held_out: Dataset,
    *,
    step: int,
    scores: dict[str, float],
) -> dict[str, Any]:
    """Publish the model if it is a classifier, and write the result; for one of the ranks.

    Args:
        config: The run's.
        settings: What a later start of the run must have equal; `config.settings()` at its start.
        whole_model: The parameters and buffers of the whole model on the CPU, which rank 0 has; None if it is not
            published.
        held_out: Samples on which the published file must agree with the model, and by which it is judged.
        step: Steps done.
        scores: Of the held-out samples, by the names of `Task.scores`.

    Returns:
        The `version` that was published, or None and why in `not_published`.

    Raises:
        ExportError: see `publish`, or a folder cannot be written; there is no result then.
    """
    with _writable(config.output_dir):
        published: dict[str, Any] = {"version": None, "not_published": NOT_A_CLASSIFIER}
        if is_published(config):
            assert whole_model is not None, "only rank 0 publishes"
            trained = _trained_model(config, whole_model, held_out, step=step)
            published = {"version": publish(config.folders.models, config.export, trained, config.compression)}
        result: dict[str, Any] = {
            "model_name": config.export.model_name if published["version"] else None,
            **published,
            "step": step,
            **scores,
            "settings": settings,
        }
        write_json_atomically(config.folders.result, result)
        return published


@contextmanager
def _writable(output_dir: Path) -> Generator[None]:
    """Refuse in one line what a full or lost volume does to the block.

    Raises:
        ExportError: naming the place and the fix.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not of a file system
            raise
        place = error.filename or output_dir
        what = "the model and the result of the run cannot be written"
        fix = f"{fix_of(error)}; then start the run again, its last checkpoint is there"
        raise ExportError(f"{place}: {what}: {error.strerror}. Fix: {fix}") from error


def _trained_model(
    config: TrainConfig, whole_model: dict[str, Tensor], held_out: Dataset, *, step: int
) -> TrainedModel:
    samples = held_out.batch(torch.arange(min(VERIFIED_SAMPLES, len(held_out)))).to(torch.device("cpu"))
    splits = load_splits(config.data, config.model.input_shape) if config.compression.variants else None
    return TrainedModel(
        module=module_with(config.model, whole_model).eval(),
        inputs=(TensorSpec(name="image", shape=held_out.sample_shape),),
        outputs=(TensorSpec(name="logits", shape=(held_out.classes,)),),
        samples=[[samples.inputs]],
        run_name=config.run_name,
        step=step,
        held_out=ReadSamples(held_out, most=_MEASURED_SAMPLES),
        training=splits.training if splits else None,
        commit=source_commit(config.folders.run),
        class_names=held_out.class_names,
    )
