"""Latency and bandwidth of all-reduce, the collective of data-parallel training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.distributed import Distributed

SMALLEST_BYTES = 1024
LARGEST_BYTES = {"cpu": 1 << 26, "cuda": 1 << 30}
"""By kind of device, unless a run says otherwise: where the bandwidth of 8 GPUs a node no longer grows in NCCL's own
benchmarks."""
_STEP = 4
_WARM_UP_CALLS = 3
_CALLS_PER_ROUND = 5  # one call of a few microseconds is below what the clock and a GPU's queue can tell
_ELEMENT_BYTES = 4


class WrongSumError(RuntimeError):
    """An all-reduce returned something else than the sum."""


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """One size measured."""

    num_bytes: int
    """Size of each rank's buffer."""
    microseconds: float
    """Time of one call: mean over the ranks, median over the rounds."""
    algorithm_gb_per_second: float
    """Buffer size by time, in 10^9 bytes per second."""
    bus_gb_per_second: float
    """Bandwidth of each rank's link, in 10^9 bytes per second; comparable between numbers of ranks."""


def sizes(max_bytes: int) -> list[int]:
    """Return the buffer sizes to measure, in bytes: powers of 4 from 1 KiB to `max_bytes`."""
    powers = [SMALLEST_BYTES]
    while powers[-1] * _STEP <= max_bytes:
        powers.append(powers[-1] * _STEP)
    return powers


def bandwidths(num_bytes: int, seconds: float, world_size: int) -> tuple[float, float]:
    """Return algorithm and bus bandwidth in GB/s (10^9 bytes per second).

    Source: nccl-tests, doc/PERFORMANCE.md, "AllReduce": busbw = algbw * 2 (n - 1) / n.
    """
    algorithm = num_bytes / seconds / 1e9
    return algorithm, algorithm * 2 * (world_size - 1) / world_size


def measure(num_bytes: int, rounds: int, distributed: Distributed) -> AllReduce:
    """Measure one size; every rank calls it together and gets the same result.

    Raises:
        WrongSumError: the network or its library computes wrongly.
    """
    buffer = torch.ones(num_bytes // _ELEMENT_BYTES, device=distributed.device)
    distributed.sum(buffer)
    if not bool((buffer == distributed.world_size).all()):
        raise WrongSumError(f"all-reduce of ones in {num_bytes} bytes over {distributed.world_size} ranks is wrong")
    buffer.zero_()  # sums of sums would overflow

    def calls() -> None:
        for _ in range(_CALLS_PER_ROUND):
            distributed.sum(buffer)

    for _ in range(_WARM_UP_CALLS):
        distributed.sum(buffer)
    seconds = median_seconds(calls, rounds, distributed) / _CALLS_PER_ROUND
    algorithm, bus = bandwidths(num_bytes, seconds, distributed.world_size)
    return AllReduce(
        num_bytes=num_bytes,
        microseconds=seconds * 1e6,
        algorithm_gb_per_second=algorithm,
        bus_gb_per_second=bus,
    )


def median_seconds(work: Callable[[], None], rounds: int, distributed: Distributed) -> float:
    """Return how long `work` takes: mean over the ranks, then median over the rounds."""
    seconds = torch.empty(rounds, dtype=torch.float64)
    for number in range(rounds):
        # all begin together: a rank that waits for a late one would measure the other one's lateness
        distributed.sum(torch.zeros(1))
        _finish_queued(distributed.device)
        begin = time.perf_counter()
        work()
        _finish_queued(distributed.device)
        seconds[number] = time.perf_counter() - begin
    distributed.sum(seconds)
    return (seconds / distributed.world_size).quantile(0.5).item()


def _finish_queued(device: torch.device) -> None:
    """Wait until a GPU has done what it was given; it is only queued when a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
