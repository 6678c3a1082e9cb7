"""Accuracy and latency of a model file, run as a server runs it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch

from trainer.pytorch.deterministic import any_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from trainer.model_repository.model_file import Program
    from trainer.pytorch.compression.samples import Samples

BATCH_SIZES = (1, 16)
THREADS = 1
_WARM_UP_CALLS = 5
_CALLS = 200
_SECONDS = 1.0
_SAMPLES_PER_CALL = 64


class InBatches(Protocol):
    """Labelled samples, in memory or read when they are needed."""

    def __len__(self) -> int: ...

    def batches(self, size: int) -> Iterator[Samples]:
        """Return consecutive parts; the last one may be smaller."""
        ...


def share_correct(call: Callable[..., object], samples: InBatches) -> float:
    """Return the share of samples whose largest output is at their label, 0 to 1.

    Args:
        call: A model in evaluation mode, or a loaded file: inputs float32 [N, …] to logits [N, classes].
        samples: Held-out ones.
    """
    correct = 0
    with torch.inference_mode(), any_kernel():
        for batch in samples.batches(_SAMPLES_PER_CALL):
            logits = cast("Tensor", call(batch.inputs))
            correct += int((logits.argmax(dim=1) == batch.labels).sum())
    return correct / len(samples)


def latencies(
    programs: Sequence[Program], samples: Sequence[Tensor], sizes: Sequence[int] | None = BATCH_SIZES
) -> list[dict[str, dict[str, float]]]:
    """Time calls on one thread: 200 of each program, or what a second for each allows.

    One thread, so that files compare: two on a busy machine wait for each other. The programs take turns, so that what
    else the machine does slows all of them.

    Args:
        programs: Loaded models.
        samples: Real inputs, a tensor for each, repeated where there are fewer rows than wanted.
        sizes: Samples of a call. None: the inputs are those of one call.

    Returns:
        For each program `batch_1` and `batch_16`, each with `p50` and `p99` in milliseconds; for calls without batches
        `batch_1` alone.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        calls = {1: samples} if sizes is None else {rows: [_rows(one, rows) for one in samples] for rows in sizes}
        columns = {f"batch_{rows}": _latencies(programs, call) for rows, call in calls.items()}
        return [{name: column[place] for name, column in columns.items()} for place in range(len(programs))]
    finally:
        torch.set_num_threads(threads)


def machine() -> dict[str, str | int]:
    """Return the machine's properties that latencies depend on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "threads": THREADS}


def _rows(samples: Tensor, rows: int) -> Tensor:
    return torch.cat([samples[:rows]] * -(-rows // len(samples[:rows])))[:rows]


def _latencies(programs: Sequence[Program], batch: Sequence[Tensor]) -> list[dict[str, float]]:
    milliseconds: list[list[float]] = [[] for _ in programs]
    with torch.inference_mode(), any_kernel():
        for program in programs:
            for _ in range(_WARM_UP_CALLS):
                program.call(*batch)
        end = time.perf_counter() + _SECONDS * len(programs)
        while len(milliseconds[0]) < _CALLS and (not milliseconds[0] or time.perf_counter() < end):
            for program, taken in zip(programs, milliseconds, strict=True):
                begin = time.perf_counter()
                program.call(*batch)
                taken.append((time.perf_counter() - begin) * 1000)
    percentiles = [[round(float(value), 4) for value in np.percentile(taken, (50, 99))] for taken in milliseconds]
    return [{"p50": p50, "p99": p99} for p50, p99 in percentiles]
