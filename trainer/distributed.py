"""The group of processes that train together: who am I, who else is there, how we agree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, cast

import torch
import torch.distributed as dist

from trainer.validation import at_least

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class MainRankError(RuntimeError):
    """Work that rank 0 does for all ranks failed; the message is rank 0's."""


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """How the processes of a job find each other and how long they wait."""

    num_gpu: int = 0
    """GPUs of this worker, one process each; 0 trains on the CPU."""
    init_timeout_seconds: int = 300
    """Longest wait for the other workers until the first step is done: pods start and images load at their own pace."""
    train_timeout_seconds: int = 120
    """Longest wait for the other ranks after the first step; also bounds a checkpoint and the export."""

    def __post_init__(self) -> None:
        at_least("num_gpu", self.num_gpu, 0)
        at_least("init_timeout_seconds", self.init_timeout_seconds, 1)
        at_least("train_timeout_seconds", self.train_timeout_seconds, 1)


class Distributed:
    """A joined process group. Works the same with one process and without torchrun.

    Attributes:
        rank: number of this process among all, from 0; rank 0 is the main one.
        local_rank: number of this process on its node.
        world_size: number of all processes.
        local_world_size: number of processes on this node.
        device: where this process computes.
    """

    def __init__(self, config: DistributedConfig) -> None:
        """Join the group named by torchrun's environment variables, or make one of this process alone.

        Raises:
            ValueError: the number of GPUs fits neither the machine nor the number of processes, or torchrun would hang
                in a restart.
            torch.distributed.DistNetworkError: the other workers were not found in time.
        """
        self._config = config
        _refuse_shared_store()
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.device = self._choose_device()
        on_gpu = self.device.type == "cuda"
        launched = "RANK" in os.environ
        dist.init_process_group(
            # gloo beside NCCL: flags, checkpoints and evaluation counts then need no GPU synchronisation
            backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            timeout=timedelta(seconds=config.init_timeout_seconds),
            device_id=self.device if on_gpu else None,
            # alone there is nobody to meet: a store in memory needs no address and no port
            store=None if launched else dist.HashStore(),  # pyright: ignore[reportPrivateImportUsage]
            rank=self.rank,
            world_size=self.world_size,
        )

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which does what is done once for all."""
        return self.rank == 0

    def use_train_timeout(self) -> None:
        """Wait from now on only as long as a training step may take."""
        dist.set_timeout(timedelta(seconds=self._config.train_timeout_seconds))

    def start_sum(self, values: torch.Tensor) -> dist.Work:
        """Start adding up a tensor over all ranks, in place; the sum is there after `wait()` on what is returned."""
        work = dist.all_reduce(values, async_op=True)
        assert work is not None, "this process is a member of the default group"
        return work

    def sum(self, values: torch.Tensor) -> None:
        """Add up a tensor over all ranks, in place."""
        dist.all_reduce(values)

    def on_main(self, work: Callable[[], T]) -> T:
        """Run `work` on rank 0 only and return its result, which must be picklable, on every rank.

        Raises:
            MainRankError: on the other ranks when `work` failed; rank 0 raises the exception itself.
        """
        answer: list[tuple[T | None, str | None]] = [(None, None)]
        failure: Exception | None = None
        if self.is_main:
            try:
                answer = [(work(), None)]
            except Exception as error:  # noqa: BLE001  the others must hear of any failure instead of waiting for it
                failure = error
                answer = [(None, f"{type(error).__name__}: {error}")]
        dist.broadcast_object_list(answer, src=0, device=torch.device("cpu"))
        if failure is not None:
            raise failure
        result, message = answer[0]
        if message is not None:
            raise MainRankError(message)
        return cast("T", result)

    def gather(self, value: T) -> list[T]:
        """Return every rank's value, which must be picklable, in the order of ranks, on every rank."""
        values: list[T | None] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return cast("list[T]", values)

    def close(self) -> None:
        """Leave the group."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def _choose_device(self) -> torch.device:
        wanted = self._config.num_gpu
        if wanted == 0:
            return torch.device("cpu")
        present = torch.cuda.device_count()
        if wanted > present:
            fix = "Fix: request that many GPUs for the pod, or --num_gpu 0 to train on the CPU"
            raise ValueError(f"num_gpu={wanted}: this machine has {present} usable GPUs. {fix}")
        if wanted != self.local_world_size:
            fix = f"Fix: torchrun --nproc-per-node={wanted}"
            raise ValueError(f"num_gpu={wanted}: {self.local_world_size} processes were started here. {fix}")
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)


def _refuse_shared_store() -> None:
    """Refuse to start where a restart by torchrun would hang.

    By default torchrun lends its rendezvous store to the workers and keeps it for the
    next attempt: gloo then reads the addresses of the dead processes and waits until the timeout (seen on torch 2.15).
    """
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if shared and restarts > 0:
        fix = "Fix: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun"
        raise ValueError(f"max_restarts={restarts}: workers would reuse the store of dead ones and hang. {fix}")
