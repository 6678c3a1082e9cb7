"""Settings of torch, once per process: threads, determinism, random numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from trainer.common.cpu import threads_per_process
from trainer.common.validation import between

_LARGEST_SEED = 2**63 - 1
"""torch takes 64 bits, and each rank adds its number."""
_MOST_THREADS = 1024
"""OpenMP ends the process without a word where it gets no memory for the stacks of its threads."""


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """Settings of the process, not of the model."""

    seed: int = 0
    """Decides initial weights, order of samples and dropout."""
    deterministic: bool = True
    """Use only kernels that give the same bits again on CPUs, where that costs nothing."""
    deterministic_on_gpus: bool = False
    """The same on GPUs, where it costs speed, and where torch refuses operations that have no such kernel."""
    cudnn_benchmark: bool = True
    """Try cuDNN's kernels for each new shape of a convolution on GPUs and keep the fastest; not of deterministic ones.
    For models whose batches differ in shape it is a loss. Source: torch's performance tuning guide."""
    num_cpu_threads: int = 0
    """Threads of CPU kernels in each process; 0 takes OMP_NUM_THREADS or a share of the container's CPU limit."""

    def __post_init__(self) -> None:
        between("seed", self.seed, 0, _LARGEST_SEED)
        between("num_cpu_threads", self.num_cpu_threads, 0, _MOST_THREADS)
        if self.deterministic_on_gpus and not self.deterministic:
            raise ValueError("deterministic_on_gpus=True: needs deterministic. Fix: leave out --no-deterministic")

    def apply(self, device: torch.device, *, processes_per_node: int) -> list[str]:
        """Set up this process; to be called before the first kernel runs. Returns what its users may want to know."""
        torch.set_num_threads(self.num_cpu_threads or threads_per_process(processes_per_node))
        on_cpu = device.type == "cpu"
        if self.deterministic and (on_cpu or self.deterministic_on_gpus):
            # cuBLAS reads it when it starts; without it torch refuses to run deterministic matrix products on GPUs
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            # the same switch as use_deterministic_algorithms, which imports the compiler first: seconds per start
            torch.set_deterministic_debug_mode("error")
            # else torch fills all memory that it hands out, for programs that read what they never wrote
            torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]
        torch.backends.cudnn.benchmark = self.cudnn_benchmark and not self.deterministic_on_gpus
        torch.manual_seed(self.seed)  # pyright: ignore[reportUnknownMemberType]
        if on_cpu or self.deterministic_on_gpus:
            return []
        same = "the same run again has the same samples and random numbers, but not the same last bits"
        return [f"deterministic_on_gpus=False: {same}. Fix: --deterministic_on_gpus, at the cost of speed"]

    def seed_rank(self, rank: int) -> None:
        """Give each rank random numbers of its own, after all have built the same model."""
        torch.manual_seed(self.seed + 1 + rank)  # pyright: ignore[reportUnknownMemberType]


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the state of the generators that dropout and the like draw from."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, torch.Tensor], device: torch.device) -> None:
    """Continue from a state that `random_state` returned."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
