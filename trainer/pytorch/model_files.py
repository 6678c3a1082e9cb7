"""The files of a version: each compared with the model in memory, measured, and described for the manifest."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch

from trainer.common.files import fsync_file, sha256_of
from trainer.model_repository import model_file, torchscript
from trainer.model_repository.layout import TORCH_EXPORT, variant_file
from trainer.pytorch.deterministic import any_kernel
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.measurement import latencies, share_correct

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from trainer.pytorch.compression.config import CompressionConfig, Variant
    from trainer.pytorch.trained_model import Splits, TrainedModel

logger = logging.getLogger(__name__)

_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE = 1e-5
VERIFIED_SAMPLES = 256
"""Most samples on which a file is compared with the model."""


@dataclass(frozen=True, kw_only=True)
class VariantFiles:
    """What became of the variants that were asked for; entries of the manifest by variant."""

    published: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """With the reason."""


def write_model(path: Path, trained: TrainedModel) -> dict[str, Any]:
    """Write the model itself as TorchScript, and return its entry.

    Raises:
        ExportError: the network cannot become TorchScript, or the file does not compute what the model computes.
        OSError: the file cannot be written.
    """
    example = trained.samples[:2] if trained.method == "trace" else None
    try:
        torchscript.save_frozen(trained.module, path, example)
    except Exception as error:
        if _is_of_storage(error):
            raise
        fix = "Fix: what it names" + ("" if example is not None else ", or --method=trace, which records one call")
        why = _first_line(error).rstrip(":.")
        raise ExportError(f"the network cannot become TorchScript: {why}. {fix}") from error
    _verify(path, trained.module, trained.samples)
    return _entry(path, model_file.load(path), trained.accuracy, trained.samples)


def write_variants(folder: Path, trained: TrainedModel, config: CompressionConfig) -> VariantFiles:
    """Write the variants that are as accurate as `config` wants; the others are named with the reason.

    Raises:
        ExportError: variants are wanted and there is no data to make them with.
        OSError: a file cannot be written.
    """
    files = VariantFiles()
    if not config.variants:
        return files
    if trained.data is None:
        raise ExportError(f"variants={' '.join(config.variants)}: need labelled data. Fix: give it, or no variants")
    from trainer.pytorch.compression.builder import VariantBuilder  # noqa: PLC0415  seconds that only this needs

    builder = VariantBuilder(trained.module, trained.data.training, config)
    for variant in config.variants:
        path = folder / variant_file(variant)
        try:
            entry = _write_variant(path, variant, builder.build(variant), trained.data)
        except Exception as error:  # whatever torch raises for one variant, the model must be published
            if _is_of_storage(error):
                raise  # a version without it would be found, and taken for complete, by each later attempt
            rejection: dict[str, Any] = {"reason": f"cannot be built from this model: {_first_line(error)}"}
        else:
            loss = _points_lost(trained.accuracy, entry["accuracy"])
            if loss <= config.max_accuracy_loss_points or config.publish_inaccurate_variants:
                files.published[variant] = entry
                continue
            reason = f"loses {loss:.2f} points of accuracy; allowed: {config.max_accuracy_loss_points:g}"
            rejection = {"reason": reason, "accuracy": entry["accuracy"]}
        path.unlink(missing_ok=True)
        files.rejected[variant] = rejection
        logger.warning("variant %s is not published: %s", variant, rejection["reason"])
    return files


def _points_lost(before: float, after: float) -> float:
    """Return what a variant loses, in percentage points; rounded, as 100 * (0.995 - 0.99) is more than 0.5."""
    return round((before - after) * 100, 9)


def _write_variant(path: Path, variant: Variant, model: nn.Module, data: Splits) -> dict[str, Any]:
    inputs = data.held_out.inputs
    if variant == TORCH_EXPORT:
        from trainer.model_repository import exported  # noqa: PLC0415  imports torch's compiler

        exported.save(model, path, inputs[:2])
    else:
        # scripting does not know the modules that quantisation and pruning generate
        with any_kernel():
            torchscript.save_frozen(model, path, inputs[:2])
    _verify(path, model, inputs)
    program = model_file.load(path)
    return _entry(path, program, share_correct(program.call, data.held_out), inputs)


def _entry(path: Path, program: model_file.Program, share: float, samples: Tensor) -> dict[str, Any]:
    fsync_file(path)
    return {
        "model_file": path.name,
        "sha256": sha256_of(path),
        "size_bytes": path.stat().st_size,
        "accuracy": share,
        "latency_ms": latencies(program, samples),
    }


def _verify(path: Path, model: nn.Module, samples: Tensor) -> None:
    """Refuse a file that answers otherwise than the model in memory, for one sample and for many."""
    call = torchscript.load(path) if path.suffix == ".pt" else model_file.load(path).call
    for batch in (samples[:1], samples[:VERIFIED_SAMPLES]):
        with torch.inference_mode(), any_kernel():
            expected, answer = model(batch), cast("Tensor", call(batch))
        if not torch.allclose(answer, expected, rtol=_RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE):
            difference = (answer - expected).abs().max().item()
            raise ExportError(
                f"{path.name}: differs from the trained model by {difference:g} on {len(batch)} samples; "
                f"allowed: {_ABSOLUTE_TOLERANCE:g} + {_RELATIVE_TOLERANCE:g} of the value"
            )


def _is_of_storage(error: Exception) -> bool:
    """Tell a full disk from torch's own OSErrors, such as for a network whose source is gone: those have no number."""
    return isinstance(error, OSError) and error.errno is not None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
