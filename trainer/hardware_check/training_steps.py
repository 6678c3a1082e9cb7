"""Training steps of a check on one GPU: speed by precision, checkpoints, images, stops, out of memory."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from trainer.hardware_check import inputs
from trainer.hardware_check.site import SkippedError, StepError
from trainer.pytorch.checkpoints.reader import load_state, outline
from trainer.training import digits as digits_data
from trainer.training.signals import STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainer.hardware_check.site import Site, Training

    Figures = dict[str, Any]

DIGITS = "digits"
"""Name of the step whose model the server gets."""
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("--precision", "bf16"),
    "bf16 autocast": ("--precision", "bf16_autocast"),
    "fp32": (),
    "TF32": ("--float32_matmul", "high"),
    "bf16, compiled": ("--precision", "bf16", "--compile", "inductor"),
    "bf16, deterministic": ("--precision", "bf16", "--deterministic_on_gpus"),
}
"""Options of the trainer by the name in the report."""
_VOCABULARY = 256
_TOKENS = 1 << 24
_HUGE_BATCH = 4096
"""Samples of 2,048 tokens: the logits of a step of the language model would be 1.7 TB."""
_STOPPED_AFTER, _STEPS_OF_A_STOPPED_RUN = 4, 8
_SAVED_STEP = 2
_WAITS_OF_A_STEP = 1
"""Waits for the GPU: the loss, the gradient's norm and what the ranks agree on are read together."""


def digits(site: Site) -> Figures:
    """Train the example by default settings: it must compute on the GPU without an option."""
    data = site.folder / "digits-data"
    digits_data.prepare(data)
    epochs = () if site.gpus else ("--epochs", "1")
    run = site.trained(DIGITS, "--data_dir", str(data), *epochs, until="whole")
    expected = "cuda:0" if site.gpus else "cpu"
    if run.observed["device"] != expected:
        raise StepError(f"trained on {run.observed['device']}, not on {expected}")
    [end] = run.events("finished")
    steps = run.events("step")
    return {"device": expected, "accuracy": end["accuracy"], "memory_peak_bytes": steps[-1]["memory_peak_bytes"]}


def gpt(site: Site, size: str, variant: str) -> Figures:
    """Measure a language model in one way to compute.

    Raises:
        SkippedError: it is compiled, for which miniatures are too short.
    """
    if "compiled" in variant and not site.gpus:
        raise SkippedError("compiling takes longer than a miniature")
    run = site.trained(
        gpt_name(size, variant), *gpt_options(site, size), *VARIANTS[variant], "--max_steps", str(site.scale.steps)
    )
    return speed(site, run)


def gpt_name(size: str, variant: str) -> str:
    """Return the name of the step that measures it, which its files have, too."""
    return f"gpt-{size}-{variant.lower().replace(',', '').replace(' ', '-')}"


def speed(site: Site, run: Training) -> Figures:
    """Return the figures of a run's steps without those of its warm-up."""
    first, *_ = steps = run.events("step")
    counted = steps[site.scale.warm_up :]
    seconds = sum(each["step_seconds"] for each in counted)
    figures: Figures = {
        "samples_per_second": round(sum(each["samples"] for each in counted) / seconds, 2),
        "step_milliseconds": round(1000 * seconds / len(counted), 2),
        "first_step_seconds": round(first["step_seconds"], 2),
        "memory_peak_bytes": max(each["memory_peak_bytes"] for each in counted),
        "data_wait": round(sum(each["data_wait_seconds"] for each in counted) / seconds, 4),
        "synchronisations_per_step": max(run.observed["synchronisations"][site.scale.warm_up :]),
    }
    if "tokens" in first:
        figures["tokens_per_second"] = round(sum(each["tokens"] for each in counted) / seconds)
    if figures["synchronisations_per_step"]:
        figures["synchronisations_at"] = dict(islice(run.observed["places"].items(), 5))
    if figures["synchronisations_per_step"] > _WAITS_OF_A_STEP:
        raise StepError(f"a step waits for the GPU {figures['synchronisations_per_step']} times: {figures}")
    mfu = [each["mfu"] for each in counted if "mfu" in each]
    if mfu:
        figures["mfu"] = round(sum(mfu) / len(mfu), 4)
    return figures


def checkpoint(site: Site) -> Figures:
    """Save the same states synchronously and in the background, and compare them byte by byte.

    Two GPUs divide the model, so that each copies its own part. The report also has, for each save, the seconds of one
    file of as many bytes, which no way to save can be faster than.
    """
    saves: dict[str, list[dict[str, Any]]] = {}
    size, *_ = site.scale.gpt_sizes
    ranks = min(site.gpus, 2) or 1
    divided = ("--data_parallel_shard", str(ranks)) if ranks > 1 else ()
    for mode in ("sync", "async"):
        options = ("--checkpoint_mode", mode, "--checkpoint_interval_steps", str(_SAVED_STEP))
        same = ("--deterministic_on_gpus", "--keep_latest_k", "10", "--max_steps", str(3 * _SAVED_STEP))
        words = (*gpt_options(site, size, saves=True), *options, *same, *divided)
        run = site.trained(f"checkpoint-{mode}", *words, ranks=ranks)
        saves[mode] = run.events("checkpoint_saved")
    # the second copy is made to the memory of the first
    for step in (_SAVED_STEP, 2 * _SAVED_STEP):
        stored = [_stored(site.folder / f"checkpoint-{mode}", step) for mode in ("sync", "async")]
        different = [name for name in stored[0] if not _equal(stored[0][name], stored[1].get(name))]
        if different or stored[0].keys() != stored[1].keys():
            raise StepError(f"step {step}: {len(different)} of {len(stored[0])} values differ, such as {different[:3]}")
    if not all("background_seconds" in each for each in saves["async"]):
        raise StepError("the asynchronous save was not done in the background")
    size_bytes = sum(each.nbytes for each in stored[0].values() if isinstance(each, torch.Tensor))
    return {
        "values": len(stored[0]),
        "bytes": size_bytes,
        "equal": True,
        "sync_pause_seconds": [round(each["seconds"], 3) for each in saves["sync"]],
        "async_pause_seconds": [round(each["seconds"], 3) for each in saves["async"]],
        "async_background_seconds": [round(each["background_seconds"], 3) for each in saves["async"]],
        "plain_file_seconds": round(_seconds_of_a_file(site.folder / "plain-file", size_bytes), 3),
    }


def _seconds_of_a_file(path: Path, size: int) -> float:
    """Return how long it takes until a file of a size is on the disk."""
    part = bytes(1 << 24)
    begin = time.perf_counter()
    with path.open("wb") as file:
        for start in range(0, size, len(part)):
            file.write(part[: size - start])
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begin


def images(site: Site, workers: int) -> Figures:
    """Feed a residual network with JPEG files that the rank, or processes of its own, decode."""
    try:
        data = inputs.photographs(site.folder / "photographs", site.scale)
    except ImportError as error:
        raise SkippedError(f"no Pillow: {error}") from error
    scale = site.scale
    run = site.trained(
        f"images-{workers}",
        *("--dataset", "image_folder", "--data_dir", str(data), "--data_workers", str(workers)),
        *("--model", "resnet", *scale.resnet, "--image_size", str(scale.image_size), "--classes", "2"),
        *("--model_name", "photographs", "--precision", "bf16_autocast", "--channels_last"),
        *("--batch_size", str(scale.image_batch), "--max_steps", str(scale.steps), *_without_checkpoints()),
    )
    return speed(site, run)


def stop_and_resume(site: Site) -> Figures:
    """Stop a run as Kubernetes does, let the same command continue, and compare it with an uninterrupted run."""
    same = ("--max_steps", str(_STEPS_OF_A_STOPPED_RUN), "--deterministic_on_gpus")
    options = (*gpt_options(site, site.scale.gpt_sizes[0]), *same)
    whole = site.trained("not-stopped", *options)
    seconds = _stopped(site, options)
    resumed = site.trained("stop", *options)
    [stopped], [begun] = resumed.events("stopped"), resumed.events("resumed")
    losses = [[(each["step"], each["loss"]) for each in run.events("step")] for run in (whole, resumed)]
    if begun["step"] != stopped["step"] or losses[0] != losses[1]:
        both = [pair for pair in zip(*losses, strict=False) if pair[0] != pair[1]]
        raise StepError(f"stopped at {stopped['step']}, resumed at {begun['step']}, other losses: {both[:3]}")
    return {
        "stop_seconds": seconds,
        "resumed_at_step": begun["step"],
        "steps": len(losses[0]),
        "losses_equal": True,
        "files_bytes": _size_of(site.folder / "stop"),
    }


def out_of_memory(site: Site) -> Figures:
    """Ask for more memory than the GPU has: the message must say what would help.

    Raises:
        SkippedError: there is no GPU; without one it is the kernel that ends a process.
    """
    if not site.gpus:
        raise SkippedError("no GPU: on a CPU the kernel ends a process without a message")
    options = ("--batch_size", str(_HUGE_BATCH), "--max_steps", "3")
    run = site.train("out-of-memory", *gpt_options(site, site.scale.gpt_sizes[-1]), *options)
    [status] = site.finished(run.running)
    message = next((line for line in run.running.said().splitlines() if "out of memory" in line.lower()), "")
    if not status or "Fix: " not in run.running.said() or "Traceback" in run.running.said():
        raise StepError(f"ended with status {status}, and does not say what helps:\n{run.running.last_lines()}")
    return {"status": status, "message": message}


def _stopped(site: Site, options: tuple[str, ...]) -> float:
    """Send SIGTERM to a run after some steps, and return how many seconds it took to end."""
    run = site.train("stop", *options, until=str(_STOPPED_AFTER))
    site.wait(run.running, lambda: len(run.events("step")) == _STOPPED_AFTER, f"step {_STOPPED_AFTER}")
    begin = time.monotonic()
    for process in run.running.processes:
        process.send_signal(signal.SIGTERM)
    [status] = site.finished(run.running)
    if status != STOPPED_EXIT_STATUS:
        raise StepError(f"ended with status {status} after SIGTERM, not {STOPPED_EXIT_STATUS}")
    return round(time.monotonic() - begin, 2)


def gpt_options(site: Site, size: str, *, saves: bool = False) -> tuple[str, ...]:
    """Return the options of the trainer for a language model; without checkpoints unless it `saves`."""
    data = inputs.tokens(site.folder / "tokens", vocabulary=_VOCABULARY, count=_TOKENS if site.gpus else 1 << 14)
    batch = str(site.gpt_batch)
    model = ("--dataset", "tokens", "--data_dir", str(data), "--model", "gpt", "--size", size, "--batch_size", batch)
    return (*model, *(() if saves else _without_checkpoints()))


def _without_checkpoints() -> tuple[str, ...]:
    return ("--checkpoint_interval_steps", "1000000", "--evaluation_interval_steps", "1000000")


def _stored(folder: Path, step: int) -> dict[str, Any]:
    """Return every value of a checkpoint of a run, by its name."""
    [checkpoint] = folder.glob(f"*/checkpoints/step-{step:08d}")
    values: dict[str, Any] = outline(checkpoint)
    load_state(checkpoint, values, alone=True)
    return values


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        # bits, not numbers: what is not a number equals nothing
        return same and torch.equal(_bytes(one), _bytes(other))
    return one == other


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
