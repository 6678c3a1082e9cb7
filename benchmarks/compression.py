"""How much faster 8-bit models are than eager ones, and what they lose: a small network and ResNet-18, on this CPU.

Both learn the handwritten digits, enlarged to their input, so that accuracy is that of trained weights on held-out
images. ResNet-18 learns and is judged at 64 pixels, to be done in minutes; it is timed at 224.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import interpolate

from benchmarks.resnet import resnet18
from benchmarks.rounds import interleaved_seconds
from tools.tables import table
from trainer.model_repository import model_file, torchscript
from trainer.pytorch.compression.builder import fine_tune, quantize_static
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.measurement import share_correct
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table
    from torch import Tensor

    from tools.progress import Progress
    from trainer.training.digits import SplitName

ROUNDS = 9
_SECONDS_PER_RUN = 0.2
"""Calls of one run of a variant in a round: as many as fit."""
_CHANNELS = 3
_EAGER, _FROZEN, _INT8 = "eager float32", "frozen float32", "int8"


def small_cnn() -> nn.Module:
    """Return a network of four convolutions, 75,000 parameters: images float32 [N, 3, 32, 32] to logits [N, 10]."""

    def convolution(channels_in: int, channels_out: int) -> tuple[nn.Module, ...]:
        layer = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        return layer, nn.BatchNorm2d(channels_out), nn.ReLU()

    return nn.Sequential(
        *convolution(_CHANNELS, 32), *convolution(32, 32), nn.MaxPool2d(2),
        *convolution(32, 64), nn.MaxPool2d(2), *convolution(64, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, digits.NUM_CLASSES),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A network, how it is trained, and what it is timed with."""

    name: str
    network: Callable[[], nn.Module]
    training_pixels: int
    timed_pixels: int
    epochs: int


SUBJECTS = (
    Subject(name="small CNN, 32 px", network=small_cnn, training_pixels=32, timed_pixels=32, epochs=4),
    Subject(name="ResNet-18, 224 px", network=resnet18, training_pixels=64, timed_pixels=224, epochs=2),
)


def measure(report: Progress) -> Table:
    """Return the table: medians of rounds in which the variants take turns, on one thread and on all cores."""
    rows: list[list[str]] = []
    for subject in SUBJECTS:
        report.detail(f"{subject.name}: training")
        rows += _measure(subject, report)
    columns = ["model", "batch", "threads", _EAGER, _FROZEN, _INT8, "int8 over eager", "accuracy, lost points"]
    return table(f"Compression, {ROUNDS} interleaved rounds, median milliseconds of one call", columns, rows)


def _measure(subject: Subject, report: Progress) -> list[list[str]]:
    training, held_out = (_samples(split, subject.training_pixels) for split in digits.SPLITS)
    torch.manual_seed(0)
    config = CompressionConfig(fine_tune_epochs=subject.epochs)
    model = fine_tune(subject.network(), training, config)
    quantized = quantize_static(model, training.inputs[: config.calibration_samples])
    with tempfile.TemporaryDirectory() as folder:
        frozen, int8 = (_saved(module, held_out.inputs, Path(folder)) for module in (model, quantized))
    before, after = (share_correct(call, held_out) for call in (model, int8))
    accuracy = f"{before:.4f}, {(before - after) * 100:+.2f}"
    calls = {_EAGER: model, _FROZEN: frozen, _INT8: int8}
    rows: list[list[str]] = []
    for threads in sorted({1, os.cpu_count() or 1}):
        for batch in (1, 16):
            report.detail(f"{subject.name}: batch {batch}, {threads} threads")
            images = torch.rand(batch, _CHANNELS, subject.timed_pixels, subject.timed_pixels)
            medians = _milliseconds(calls, images, threads)
            ratio = f"{medians[_EAGER] / medians[_INT8]:.2f} x"
            rows.append(
                [
                    subject.name,
                    str(batch),
                    str(threads),
                    *(f"{value:.3f}" for value in medians.values()),
                    ratio,
                    accuracy,
                ]
            )
    return rows


def _samples(split: SplitName, pixels: int) -> Samples:
    source = digits.from_source(split)
    images = interpolate(torch.from_numpy(source.images), size=(pixels, pixels), mode="bilinear", align_corners=False)
    return Samples(inputs=images.repeat(1, _CHANNELS, 1, 1), labels=torch.from_numpy(source.labels))


def _saved(model: nn.Module, images: Tensor, folder: Path) -> Callable[..., object]:
    """Return the model as a server has it whose manifest has it optimised: written to a file, loaded, optimised."""
    path = folder / "model.pt"
    torchscript.save_frozen(model, path, [images[:2]])
    return model_file.load_optimized(path).call


def _milliseconds(calls: dict[str, Callable[..., object]], images: Tensor, threads: int) -> dict[str, float]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            counts = {name: _calls_per_run(call, images) for name, call in calls.items()}
            runs = {name: _repeated(call, images, counts[name]) for name, call in calls.items()}
            seconds = interleaved_seconds(runs, ROUNDS)
    finally:
        torch.set_num_threads(before)
    return {name: statistics.median(values) / counts[name] * 1000 for name, values in seconds.items()}


def _calls_per_run(call: Callable[..., object], images: Tensor) -> int:
    once = interleaved_seconds({"": lambda: call(images)}, rounds=5)[""]
    return max(1, round(_SECONDS_PER_RUN / statistics.median(once)))


def _repeated(call: Callable[..., object], images: Tensor, count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            call(images)

    return run
