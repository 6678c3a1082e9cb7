"""The files of a version: each is compared with the model in memory, measured, and described in the manifest.

What is compared and measured is what a server runs: the file, loaded back, and for TorchScript also as torch optimises
it for a CPU. A server may use the latter only if `optimization` in the manifest says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from trainer.common.files import fsync_file, sha256_of
from trainer.model_repository import comparison, compiled, model_file, torch_error, torchscript
from trainer.model_repository.layout import COMPILED, TORCH_EXPORT, TORCH_EXPORT_SUFFIX, variant_file
from trainer.pytorch.deterministic import any_kernel
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.measurement import BATCH_SIZES, latencies, share_correct
from trainer.pytorch.source_error import SourceError
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from trainer.model_repository.model_file import Program
    from trainer.pytorch.compression.config import CompressionConfig, Variant
    from trainer.pytorch.trained_model import TrainedModel

    Batches = Sequence[Sequence[Tensor]]

logger = logging.getLogger(__name__)

VERIFIED_SAMPLES = 64
"""Most samples on which a file is compared with the model."""
_WORTHWHILE = 0.95
"""Share of the time of the frozen model that an optimised one may take, with one sample and with many."""
_LEAST_SAVED_MS = 0.05
"""Milliseconds of a call with many samples: noise decides about less, and so little is lost in what a request costs
besides."""
_ONE, _MANY = (f"batch_{rows}" for rows in BATCH_SIZES)
_ROWS = comparison.BATCH_SIZES[-1]
"""Rows of the batch whose rows are compared with each alone."""


class _OtherAnswersError(ExportError):
    """A file does not answer as the network."""


@dataclass(frozen=True, kw_only=True)
class VariantFiles:
    """The outcome of the requested variants; entries of the manifest by variant."""

    published: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Rejected variants with the reason."""


def write_model(path: Path, trained: TrainedModel) -> dict[str, Any]:
    """Write the model itself, and return its entry.

    Raises:
        ExportError: the network cannot become TorchScript or a program of torch.export, or the file does not compute
            what the model computes.
        OSError: the file cannot be written.
    """
    kind, other = "TorchScript", "--method=script, which reads the code"
    if trained.method == "script":
        other = "--method=trace, which records one call"
    elif trained.method == "export":
        kind = "a program of torch.export"
    try:
        if trained.method == "export":
            _save_exported(trained.module, path, trained)
        else:
            torchscript.save_frozen(trained.module, path, trained.samples[0] if trained.method == "trace" else None)
    except Exception as error:
        if _is_of_storage(error):
            raise
        fix = f"Fix: what it names, or {other}"
        why = torch_error.reason(error)
        raise ExportError(f"the network cannot become {kind}: {why}. {fix}") from error
    try:
        entry = _entry(path, trained.module, trained)
    except _OtherAnswersError as error:
        raise ExportError(f"{error}. Fix: {other}") from error
    if not trained.is_batched:
        return entry | {"batching": {"dynamic": False, "reason": "the network takes no batches"}}
    if why := _dependence_of_rows(trained.module, trained.samples):
        # a server must not put the samples of several clients into one batch
        logger.warning("published without dynamic batching: %s", why)
        return entry | {"batching": {"dynamic": False, "reason": why}}
    return entry | {"batching": {"dynamic": True}}


def write_variants(
    folder: Path, trained: TrainedModel, model: dict[str, Any], config: CompressionConfig
) -> VariantFiles:
    """Write the variants that are as accurate as `config` wants; the others are named with the reason.

    Args:
        folder: The version's.
        trained: The model.
        model: The entry of the model itself.
        config: Which variants.

    Raises:
        ExportError: variants are wanted and there is no data to make them with.
        OSError: a file cannot be written.
    """
    files = VariantFiles()
    if not config.variants:
        return files
    build = _builder(trained, config)
    for variant in config.variants:
        if variant_file(variant) == trained.model_file:
            files.published[variant] = model
            continue
        path = folder / variant_file(variant, trained.model_file)
        try:
            entry = _write_variant(path, variant, build(variant), trained)
        except Exception as error:  # whatever torch raises for one variant, the model must be published
            if _is_of_storage(error):
                raise  # a version without it would be found, and taken for complete, by each later attempt
            rejection: dict[str, Any] = {"reason": f"cannot be built from this model: {torch_error.reason(error)}"}
        else:
            loss = _points_lost(model["accuracy"], entry["accuracy"]) if "accuracy" in model else 0.0
            if loss <= config.max_accuracy_loss_points or config.publish_inaccurate_variants:
                files.published[variant] = entry
                continue
            reason = f"loses {loss:.2f} points of accuracy; allowed: {config.max_accuracy_loss_points:g}"
            rejection = {"reason": reason, "accuracy": entry["accuracy"]}
        path.unlink(missing_ok=True)
        files.rejected[variant] = rejection
        logger.warning("variant %s is not published: %s", variant, rejection["reason"])
    return files


def _builder(trained: TrainedModel, config: CompressionConfig) -> Callable[[Variant], nn.Module]:
    if trained.training is not None:
        from trainer.pytorch.compression.builder import VariantBuilder  # noqa: PLC0415  seconds that only this needs

        return VariantBuilder(trained.module, trained.training, config).build
    if compressed := [variant for variant in config.variants if variant not in (TORCH_EXPORT, COMPILED)]:
        fix = f"Fix: give it, or leave out all variants but {TORCH_EXPORT} and {COMPILED}"
        raise ExportError(f"variants={' '.join(compressed)}: need labelled data. {fix}")
    return lambda _: trained.module


def _points_lost(before: float, after: float) -> float:
    """Return a variant's loss of accuracy in percentage points; rounded, as 100 * (0.995 - 0.99) exceeds 0.5."""
    return round((before - after) * 100, 9)


def _write_variant(path: Path, variant: Variant, model: nn.Module, trained: TrainedModel) -> dict[str, Any]:
    with any_kernel():
        if variant == COMPILED:
            compiled.save(model, path, trained.samples, is_batched=trained.is_batched)
        elif path.suffix == TORCH_EXPORT_SUFFIX:
            _save_exported(model, path, trained)
        else:
            # scripting does not know the modules that quantisation and pruning generate
            torchscript.save_frozen(model, path, trained.samples[0])
    entry = _entry(path, model, trained)
    if trained.is_batched and (why := _dependence_of_rows(model, trained.samples)):
        logger.warning("variant %s: %s; it is served in batches as the model is", variant, why)
        entry["depends_on_batch"] = why
    return entry


def _save_exported(model: nn.Module, path: Path, trained: TrainedModel) -> None:
    from trainer.model_repository import exported  # noqa: PLC0415  imports torch's compiler

    exported.save(model, path, trained.samples, is_batched=trained.is_batched)


def _entry(path: Path, model: nn.Module, trained: TrainedModel) -> dict[str, Any]:
    """Describe a file that answers as the model does, with the accuracy and latency of the program that is served.

    Raises:
        ExportError: it does not, or not always.
        SourceError, DataError: held-out samples cannot be read.
    """
    program, about = _served_program(path, model, trained)
    if trained.held_out is not None:
        try:
            about = {"accuracy": share_correct(program.call, trained.held_out), **about}
        except (SourceError, DataError):
            raise
        except Exception as error:  # whatever a network raises for one of them
            fix = "Fix: the network, or data without them"
            raise ExportError(f"{path.name}: fails on held-out samples: {torch_error.reason(error)}. {fix}") from error
    fsync_file(path)
    return {"model_file": path.name, "sha256": sha256_of(path), "size_bytes": path.stat().st_size, **about}


def _served_program(path: Path, model: nn.Module, trained: TrainedModel) -> tuple[Program, dict[str, Any]]:
    """Return the program that a server should run of a file, with its latency and why it is that one."""
    with torch.inference_mode(), any_kernel():
        cases, is_sampled = _cases(model, trained)
        frozen = _verified(path, model, cases)
        if path.suffix == TORCH_EXPORT_SUFFIX:
            return frozen, {"latency_ms": _latencies([frozen], trained)[0]}
        optimized, why = frozen, "cannot be compared: the network fails on random inputs"
        if is_sampled:
            try:
                optimized = model_file.load_optimized(path)
                why = comparison.difference(optimized.call, cases)
            except Exception as error:  # noqa: BLE001  whatever torch raises for one model; the frozen one is right
                why = f"fails: {torch_error.reason(error)}"
    if why:
        return frozen, {
            "latency_ms": _latencies([frozen], trained)[0],
            "optimization": {"used": False, "reason": f"the optimised program {why}"},
        }
    before, after = _latencies([frozen, optimized], trained)
    is_worthwhile = all(after[size]["p50"] <= _WORTHWHILE * before[size]["p50"] for size in before)
    times = [" and ".join(f"{latency['p50']:g}" for latency in program.values()) for program in (after, before)]
    calls = f"with {' and '.join(map(str, BATCH_SIZES))} samples" if trained.is_batched else "with a call's inputs"
    reason = f"{calls} the optimised program takes {times[0]} ms, the frozen one {times[1]} ms"
    most = _MANY if trained.is_batched else _ONE
    if is_worthwhile and before[most]["p50"] - after[most]["p50"] < _LEAST_SAVED_MS:
        is_worthwhile = False
        reason += f": less than {_LEAST_SAVED_MS:g} ms, which the next measurement may deny"
    return (optimized if is_worthwhile else frozen), {
        "latency_ms": after if is_worthwhile else before,
        "optimization": {"used": is_worthwhile, "reason": reason},
    }


def _latencies(programs: Sequence[Program], trained: TrainedModel) -> list[dict[str, dict[str, float]]]:
    return latencies(programs, trained.samples[0], BATCH_SIZES if trained.is_batched else None)


def _dependence_of_rows(model: nn.Module, samples: Batches) -> str:
    """Return why the answers to a sample depend on the others of its batch, or nothing where they do not."""
    real = [(False, [tensor[:_ROWS] for tensor in tensors]) for tensors in samples]
    with torch.inference_mode(), any_kernel():
        for is_random, batch in [*real, *((True, batch) for batch in _random_batches(samples[0], [_ROWS]))]:
            try:
                why = comparison.dependence_of_rows(model, batch)
            except Exception:
                if not is_random:
                    raise
                continue  # it takes no random values; see `_cases`
            if why:
                return f"the answer to a sample depends on the others of its batch: it {why}"
    return ""


def _random_batches(like: Sequence[Tensor], sizes: Sequence[int] = comparison.BATCH_SIZES) -> Iterator[list[Tensor]]:
    """Yield batches of random float32; of other types, which are indices and masks, with the rows that are given."""
    drawn = [tensor.dtype == torch.float32 for tensor in like]
    shapes = [tensor.shape[1:] for tensor, is_drawn in zip(like, drawn, strict=True) if is_drawn]
    for size, numbers in zip(sizes, comparison.random_batches(shapes, sizes), strict=False):
        rows = torch.arange(size) % len(like[0])
        yield [numbers.pop(0) if is_drawn else tensor[rows] for tensor, is_drawn in zip(like, drawn, strict=True)]


def _random_calls(like: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield random float32 for calls without batches, with the tensors of other types that are given."""
    for numbers in comparison.random_calls([tensor.shape for tensor in like if tensor.dtype == torch.float32]):
        yield [numbers.pop(0) if tensor.dtype == torch.float32 else tensor for tensor in like]


def _cases(model: nn.Module, trained: TrainedModel) -> tuple[list[comparison.Case], bool]:
    """Return the expected answers of a file to real and to random inputs, and whether the model takes random ones.

    Raises:
        ExportError: the model fails on real ones.
    """
    cases: list[comparison.Case] = []
    if not trained.is_batched:
        cases += [
            comparison.case(model, tensors) for tensors in trained.samples
        ]  # their description called it with them
    for tensors in trained.samples if trained.is_batched else ():
        for size in sorted({min(size, len(tensors[0])) for size in (*comparison.BATCH_SIZES, VERIFIED_SAMPLES)}):
            try:
                cases.append(comparison.case(model, [tensor[:size] for tensor in tensors]))
            except Exception as error:
                fix = "Fix: a network that takes any number of samples, also one, in evaluation mode"
                why = torch_error.reason(error)
                raise ExportError(f"the network fails on a batch of {size}: {why}. {fix}") from error
    random_inputs = _random_batches if trained.is_batched else _random_calls
    try:
        random = [comparison.case(model, inputs) for inputs in random_inputs(trained.samples[0])]
    except Exception:  # noqa: BLE001  whatever it raises for values that it never gets, such as indices
        return cases, False
    return cases + random, True


def _verified(path: Path, model: nn.Module, cases: list[comparison.Case]) -> Program:
    """Load a file back and refuse it unless it answers as the model in memory.

    Raises:
        ExportError: saying what differs.
    """
    try:
        program = model_file.load(path)
        why = comparison.difference(program.call, cases)
    except Exception as error:
        raise _OtherAnswersError(
            f"{path.name}: fails where the network does not: {torch_error.reason(error)}"
        ) from error
    if not why:
        return program
    if comparison.difference(model, cases):
        fix = "Fix: in evaluation mode, neither random numbers nor changes of its own state"
        raise ExportError(f"the network gives different answers to the same inputs. {fix}")
    raise _OtherAnswersError(f"{path.name}: compared with the network, it {why}")


def _is_of_storage(error: Exception) -> bool:
    """Tell a full disk from torch's own OSErrors, such as for a network whose source is gone: those have no number."""
    return isinstance(error, OSError) and error.errno is not None
