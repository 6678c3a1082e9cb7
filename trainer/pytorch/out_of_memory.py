"""Errors for lack of memory: its current use, and what would help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.distributed.tensor import DTensor

from trainer.pytorch.reporting.memory import peak_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn

    from trainer.pytorch.config import TrainConfig

_SHORTAGES = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")
"""Phrases in the messages of CUDA and NCCL, of cuBLAS, and of torch's allocator for CPUs."""
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")
_IN_PIECES = re.compile(r"and ([\d.]+) ([KMG]iB) is reserved by PyTorch but unallocated")
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_WORTH_A_FIX = 0.1
"""Share of a GPU's memory: a smaller part that somebody else holds, or that is in pieces, would not have helped."""


class OutOfMemoryError(RuntimeError):
    """A process had too little memory; the message says for what, and what would help.

    Attributes:
        happens_again: whether it had not done a step: with the same settings it would have too little again.
    """

    def __init__(self, message: str, *, happens_again: bool) -> None:
        super().__init__(message)
        self.happens_again = happens_again


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """Bytes of a rank, by what they are for."""

    parameters: int
    gradients: int
    optimizer: int
    others: int
    """At the peak: activations, batches, workspaces, gathered parameters."""
    unused: int = 0
    """Memory that torch's allocator holds on a GPU in pieces that were too small."""
    foreign: int = 0
    """Memory of a GPU held by other processes and the CUDA context."""
    total: int | None = None
    """Memory of a GPU; None on a CPU."""

    def __str__(self) -> str:
        kinds = {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations and the rest, at the peak": self.others,
            "held in pieces": self.unused,
            "other processes and CUDA": self.foreign,
        }
        listed = ", ".join(f"{name} {_gib(size)}" for name, size in kinds.items() if size)
        return listed if self.total is None else f"{listed}, of {_gib(self.total)}"


def shortage(  # noqa: PLR0913  what was raised, and what the message says of the run
    error: BaseException,
    config: TrainConfig,
    device: torch.device,
    parts: tuple[nn.Module | None, torch.optim.Optimizer | None],
    *,
    step: int,
    ranks: int,
    happens_again: bool,
) -> OutOfMemoryError | None:
    """Return the message of an error about memory; None for any other error.

    Args:
        error: What was raised.
        config: Of the run: says what would help.
        device: Where the rank computes.
        parts: The parameters of this rank and their optimizer, as far as they are there.
        step: The one that was being done.
        ranks: Of the run.
        happens_again: See `OutOfMemoryError`.
    """
    said = str(error)
    if not any(each in said for each in _SHORTAGES):
        return None
    asked = _ASKED.search(said)
    for_what = f" for {asked[1]} more" if asked else ""
    used = memory_use(device, *parts, in_pieces=_in_pieces(said))
    fix = "; or ".join(remedies(config, used, ranks=ranks))
    return OutOfMemoryError(
        f"step {step}: out of memory on {device}{for_what}: {used}. Fix: {fix}", happens_again=happens_again
    )


def _in_pieces(said: str) -> int:
    """Return the bytes that torch's allocator held in pieces when it failed, by its message.

    What it holds now says nothing: the tensors of the step have been freed on the way here.
    """
    size = _IN_PIECES.search(said)
    return int(float(size[1]) * _UNITS[size[2]]) if size else 0


def memory_use(
    device: torch.device, model: nn.Module | None, optimizer: torch.optim.Optimizer | None, *, in_pieces: int = 0
) -> MemoryUse:
    """Return the use of a rank's memory, of which this many bytes are held in pieces."""
    parameters = [] if model is None else list(model.parameters())
    states = [] if optimizer is None else [state.values() for state in optimizer.state.values()]
    own = {
        "parameters": _bytes(parameters),
        "gradients": _bytes(each.grad for each in parameters if each.grad is not None),
        "optimizer": _bytes(each for values in states for each in values if isinstance(each, torch.Tensor)),
    }
    others = max(0, peak_bytes(device) - sum(own.values()))
    if device.type != "cuda":
        return MemoryUse(**own, others=others)
    free, total = torch.cuda.mem_get_info(device)
    foreign = max(0, total - free - torch.cuda.memory_reserved(device))
    return MemoryUse(**own, others=others, unused=in_pieces, foreign=foreign, total=total)


def remedies(config: TrainConfig, used: MemoryUse, *, ranks: int) -> list[str]:
    """Return the remedies, first those that change neither the results nor the hardware."""
    parallel, blocks, batch = config.parallel, config.blocks, config.data.batch_size
    ways: list[str] = []
    if used.total and used.foreign > _WORTH_A_FIX * used.total:
        ways.append("no other process on that GPU")
    if used.total and used.unused > _WORTH_A_FIX * used.total:
        ways.append("PYTORCH_ALLOC_CONF=expandable_segments:True in the environment")
    degrees = parallel.degrees(ranks)
    if batch // degrees.data >= 2 * parallel.microbatches:
        ways.append(f"--microbatches {2 * parallel.microbatches} (gradient accumulation, the same steps)")
    has_blocks = bool(config.model.plan().blocks)
    if has_blocks and blocks.activation_checkpointing != "full":
        ways.append("--activation_checkpointing full")
    if degrees.replicate > 1:
        ways.append(f"--data_parallel_shard {degrees.replicate * degrees.shard}")
    if config.precision.precision == "fp32":
        ways.append("--precision bf16")
    if batch > degrees.data:
        ways.append(f"a lower --batch_size than {batch}")
    return [*ways, "more GPUs with --data_parallel_shard, or with more memory"]


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of what this rank has of tensors."""
    return sum((each.to_local() if isinstance(each, DTensor) else each).nbytes for each in tensors)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
