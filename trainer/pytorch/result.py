"""What a finished run leaves: its model in the repository, and `result.json`, by which a later start knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainer.common.files import read_json, write_json_atomically
from trainer.pytorch.digits_splits import load_splits
from trainer.pytorch.export import publish
from trainer.pytorch.parallel.state import module_with
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.training import digits

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from trainer.pytorch.config import TrainConfig


SOURCE_RECORD = "source.json"
"""Where `trainer.source` keeps which commit all pods of a job run, in the run's folder."""


def source_commit(run: Path) -> str | None:
    """Return the commit of the code of a run, or None where its code came with the image."""
    return (read_json(run / SOURCE_RECORD) or {}).get("commit")


def publish_result(  # noqa: PLR0913  a result is all of it
    config: TrainConfig,
    settings: dict[str, Any],
    whole_model: dict[str, Tensor] | None,
    samples: Tensor,
    *,
    step: int,
    accuracy: float,
) -> int:
    """Publish the model and write the result; for one of the ranks. Return the model's version.

    Args:
        config: The run's.
        settings: What a later start of the run must have equal; `config.settings()` at its start.
        whole_model: The parameters and buffers of the whole model on the CPU; rank 0 has them.
        samples: Held-out images, float32 [N, 1, 8, 8], on which the published file must agree with the model.
        step: Steps done.
        accuracy: Share of held-out samples classified correctly, 0 to 1.

    Raises:
        ExportError, OSError: see `publish`; there is no result then.
    """
    assert whole_model is not None, "only rank 0 publishes"
    trained = TrainedModel(
        module=module_with(config.model, whole_model).eval(),
        inputs=TensorSpec(name="image", shape=digits.IMAGE_SHAPE),
        outputs=TensorSpec(name="logits", shape=(digits.NUM_CLASSES,)),
        samples=samples.cpu(),
        run_name=config.run_name,
        step=step,
        accuracy=accuracy,
        data=load_splits(config.data.data_dir) if config.compression.variants else None,
        commit=source_commit(config.folders.run),
    )
    version = publish(config.folders.models, config.export, trained, config.compression)
    result: dict[str, Any] = {
        "model_name": config.export.model_name,
        "version": version,
        "step": step,
        "accuracy": accuracy,
        "settings": settings,
    }
    write_json_atomically(config.folders.result, result)
    return version
