"""The process group of a training: its rank, its size, and agreement among ranks."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist

from trainer.common.validation import SettingsError, at_least
from trainer.pytorch import flight_recorder
from trainer.pytorch.guard import Guard, PeersLostError, lost_connection
from trainer.pytorch.limits import check_locked_memory, raise_open_files
from trainer.pytorch.peers import PeerWatch
from trainer.training.nvidia_driver import driver_version, shows_gpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pod_modules.athanor_heartbeat import Heartbeat
    from trainer.training.signals import StopRequest

_ON_CPU = "or --num_gpu 0 to train on the CPU"


def choose_device(num_gpu: int | None, *, local_rank: int, local_world_size: int) -> torch.device:
    """Return where a rank computes; a GPU is the current one of this thread from then on.

    Args:
        num_gpu: GPUs of this machine to use, one per rank; 0 for the CPU. None: all that are visible.
        local_rank: Number of the rank on its machine.
        local_world_size: Ranks there.

    Raises:
        SettingsError: GPUs would be unused, are missing or cannot be used.
    """
    if num_gpu == 0 or (num_gpu is None and not shows_gpus() and not torch.cuda.device_count()):
        return torch.device("cpu")
    # First of all: device_count asks the driver's management library, which also counts GPUs that CUDA cannot use.
    if reason := _why_no_gpu():
        raise SettingsError(reason if num_gpu is None else f"num_gpu={num_gpu}: {reason}")
    present = torch.cuda.device_count()
    if num_gpu is None:
        _check_all_are_used(present, local_world_size)
    else:
        _check_requested(num_gpu, present, local_world_size)
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _check_all_are_used(present: int, processes: int) -> None:
    if not present:
        fix = f"Fix: see what `python -m trainer.helpers.hardware` says of them, {_ON_CPU}"
        raise SettingsError(f"this machine shows GPUs, but torch can use none of them. {fix}")
    if present != processes:
        fix = f"Fix: torchrun --nproc-per-node={present}, fewer GPUs in CUDA_VISIBLE_DEVICES, {_ON_CPU}"
        limit = f"{processes} processes were started here, which use one each"
        raise SettingsError(f"this machine has {present} usable GPUs, but {limit}. {fix}")


def _check_requested(num_gpu: int, present: int, processes: int) -> None:
    if num_gpu > present:
        fix = f"Fix: request that many GPUs for the pod, {_ON_CPU}"
        raise SettingsError(f"num_gpu={num_gpu}: this machine has {present} usable GPUs. {fix}")
    if num_gpu != processes:
        fix = f"Fix: torchrun --nproc-per-node={num_gpu}"
        raise SettingsError(f"num_gpu={num_gpu}: {processes} processes were started here. {fix}")


def _why_no_gpu() -> str | None:
    """Return why CUDA does not start although the node has NVIDIA's driver; None where it starts or has none."""
    driver = driver_version()
    if driver is None:
        return None
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition(". ")[0]
        return (
            f"CUDA {torch.version.cuda} of this image does not start with NVIDIA's driver {driver} of the node"
            f" ({reason}). Fix: run on nodes with a newer driver (gpu.driver_version of their pool), use an image with"
            f" an older CUDA, {_ON_CPU}"
        )
    return None


def set_up() -> None:
    """Set what the backends read when they start; what is set already for gloo stays."""
    # Otherwise every rank connects to every other one at once, next to NCCL: 64,000 connections in a pod of eight ranks
    # among 8,000. On demand a rank has those of a ring and of a tree (pytorch/gloo#419, pytorch/pytorch#150801).
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    # torchrun sets 1: torch's watchdog ends the process while the main thread could still say why, and races with an
    # abort from outside (note at torch.distributed's _abort_process_group, torch 2.15). The guard keeps the limits.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"


def refuse_shared_store() -> None:
    """Refuse to start where a restart by torchrun would hang.

    By default torchrun lends its rendezvous store to the workers and keeps it for the
    next attempt: gloo then reads the addresses of the dead processes and waits until the timeout (seen on torch 2.15).
    """
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if shared and restarts > 0:
        fix = "Fix: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun"
        raise SettingsError(f"max_restarts={restarts}: workers would reuse the store of dead ones and hang. {fix}")


T = TypeVar("T")
_DUMP_SECONDS = 2.0
"""Longest that an abort waits for the record of the collectives, which is written to a volume."""


class MainRankError(RuntimeError):
    """Work that rank 0 does for all ranks failed; the message is rank 0's."""


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """How the processes of a job find each other and how long they wait."""

    num_gpu: int | None = None
    """GPUs of this worker, one process each; 0 trains on the CPU. Default: all that it sees, the CPU without any."""
    init_timeout_seconds: int = 1800
    """Longest wait for the other workers until the first step is done: a node that has to be bought first and an image
    of several GB that it has to load must not cost a restart."""
    train_timeout_seconds: int = 120
    """Longest wait for the other ranks in a step after the first one."""
    checkpoint_timeout_seconds: int = 1800
    """Longest wait for the other ranks while a checkpoint is written, the model is evaluated or published."""
    stop_timeout_seconds: int = 30
    """Longest that a step may continue after a stop signal before another rank counts as lost, or one without others
    as hanging; with the time of a checkpoint it must fit into the pod's grace period."""
    peer_timeout_seconds: int = 60
    """Silence after which the process or the node of another rank counts as lost; 0 does not look."""

    def __post_init__(self) -> None:
        if self.num_gpu is not None:
            at_least("num_gpu", self.num_gpu, 0)
        at_least("init_timeout_seconds", self.init_timeout_seconds, 1)
        at_least("train_timeout_seconds", self.train_timeout_seconds, 1)
        at_least("checkpoint_timeout_seconds", self.checkpoint_timeout_seconds, 1)
        at_least("stop_timeout_seconds", self.stop_timeout_seconds, 1)
        at_least("peer_timeout_seconds", self.peer_timeout_seconds, 0)


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
            SettingsError: GPUs would be unused, are missing or cannot be used, or torchrun would hang in a restart.
            LimitError: RDMA is asked for and memory cannot be locked.
            torch.distributed.DistNetworkError: the other workers were not found in time.
        """
        self._config = config
        refuse_shared_store()
        check_locked_memory()
        raise_open_files()
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.device = choose_device(config.num_gpu, local_rank=self.local_rank, local_world_size=self.local_world_size)
        launched = "RANK" in os.environ
        set_up()
        self._peers: PeerWatch | None = None
        self._groups: list[dist.ProcessGroup] = []
        self._heartbeat: Heartbeat | None = None
        # alone there is nobody to wait for: a step that takes too long is reported, and ended only after a stop signal
        abort = self._abort if self.world_size > 1 else None
        self._guard = Guard(abort, self._dump_stacks, stop_timeout_seconds=config.stop_timeout_seconds)
        self._timeout_seconds = config.init_timeout_seconds
        self._guard.allow("meeting the other ranks", config.init_timeout_seconds)
        try:
            self._join(launched=launched)
        except BaseException:
            self.close()
            raise

    def _join(self, *, launched: bool) -> None:
        on_gpu = self.device.type == "cuda"
        dist.init_process_group(
            # gloo in addition to NCCL: flags, checkpoints and evaluation counts then need no GPU synchronisation
            backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            timeout=timedelta(seconds=self._timeout_seconds),
            device_id=self.device if on_gpu else None,
            # alone there is nobody to meet: a store in memory needs no address and no port
            store=None if launched else dist.HashStore(),  # pyright: ignore[reportPrivateImportUsage]
            rank=self.rank,
            world_size=self.world_size,
        )

    @property
    def main_host(self) -> str:
        """Name or address of the node of rank 0."""
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def checkpoint_timeout_seconds(self) -> int:
        """Longest wait for the other ranks while a checkpoint is written."""
        return self._config.checkpoint_timeout_seconds

    @property
    def timeout_seconds(self) -> int:
        """Longest wait for what this rank does now."""
        return self._timeout_seconds

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which does what is done once for all."""
        return self.rank == 0

    def abort_with(self, groups: list[dist.ProcessGroup]) -> None:
        """Also abort the collectives of these groups when ranks are lost: the main thread may wait in any of them."""
        self._groups = groups

    def watch(self, stop: StopRequest, heartbeat: Heartbeat) -> None:
        """Abort the wait for ranks that are lost, from now until `finishing`, also while this one is blocked in C++.

        Args:
            stop: whether this process was asked to end.
            heartbeat: gets what is allowed from now on, and for how long.
        """
        self._heartbeat = heartbeat
        if self.world_size > 1 and self._config.peer_timeout_seconds:
            # a connection of its own: a request of the main thread may hold the other one for minutes
            store = dist.distributed_c10d._get_default_store().clone()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            self._peers = PeerWatch(
                store, rank=self.rank, world_size=self.world_size, timeout_seconds=self._config.peer_timeout_seconds
            )
        self._guard.watch(stop, self._peers)

    def allow_first_step(self) -> None:
        """Wait for ranks that are still starting."""
        self._allow("the first step", self._config.init_timeout_seconds, ends_with_step=True)

    def allow_step(self, *, may_write: bool = False) -> None:
        """Wait only as long as a training step may take, or as a checkpoint if some rank writes a large file in it."""
        if may_write:
            self._allow("a step in which a trace is written", self._config.checkpoint_timeout_seconds)
        else:
            self._allow("a step", self._config.train_timeout_seconds, ends_with_step=True)

    def allow_checkpoint(self) -> None:
        """Wait as long as writing to a volume may take: a checkpoint, an evaluation."""
        self._allow("a checkpoint or an evaluation", self._config.checkpoint_timeout_seconds)

    def finishing(self) -> None:
        """Expect ranks to end from now on: one that is silent is no longer lost."""
        self._allow("publishing the model", self._config.checkpoint_timeout_seconds)
        self._guard.watch(None, None)
        self._end_watch()

    def raise_if_cut(self) -> None:
        """Refuse what the last collectives returned if they were aborted instead of completed.

        Raises:
            PeersLostError: saying why.
        """
        self._guard.raise_if_cut()

    def lost(self, error: Exception) -> PeersLostError | None:
        """Return the meaning of an error that says that ranks lost their connection; None for any other error.

        The stacks and the last collectives are written first, for gloo ends a wait before the guard would and the
        process ends with it; to the log only if the other rank may hang.
        """
        try:
            self.raise_if_cut()
        except PeersLostError as lost:
            return lost
        lost = lost_connection(error)
        if lost is not None:
            flight_recorder.dump_stacks(self.rank, error, to_log=lost.waited)
            self._dump_collectives()
        return lost

    def _allow(self, what: str, seconds: int, *, ends_with_step: bool = False) -> None:
        if seconds != self._timeout_seconds:
            dist.set_timeout(timedelta(seconds=seconds))
            self._timeout_seconds = seconds
        self._guard.allow(what, seconds, ends_with_step=ends_with_step)
        if self._heartbeat:
            self._heartbeat.expect(what, seconds)

    def _end_watch(self) -> None:
        if self._peers:
            self._peers.close()
            self._peers = None

    def _dump_stacks(self) -> None:
        flight_recorder.dump_stacks(self.rank)

    def _abort(self) -> None:
        """Make the collectives of this process return; in the guard's time, not in the main thread's.

        All groups at once, begun with the latest: ncclCommAbort of one may wait for a kernel of another one, so that
        one after the other they wait forever (pytorch/pytorch#119797). torch has one region of ncclGroupStart for them
        (torch 2.15, `_abort_process_group`), which holds for the calling thread alone (NCCL, src/group.cc),
        while `ProcessGroupNCCL::abort` calls NCCL in a thread of its own (std::async) and waits for it. NCCL allows
        several threads for several communicators: the watchdogs of torch's groups abort in this way, too.
        """
        # a volume that hangs must not keep the ranks: who waits for it is the thread alone
        dump = threading.Thread(target=self._dump_collectives, name="flight recorder", daemon=True)
        dump.start()
        dump.join(_DUMP_SECONDS)
        # of these groups alone: `_abort_process_group` also clears what the main thread is using
        default = dist.distributed_c10d._get_default_group()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        for group in (*reversed(self._groups), default):
            threading.Thread(target=self._abort_group, args=(group,), name="abort", daemon=True).start()

    def _abort_group(self, group: dist.ProcessGroup) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # each thread begins with GPU 0
        group.abort()

    def _dump_collectives(self) -> None:
        flight_recorder.dump(self.rank, backend="nccl" if self.device.type == "cuda" else "gloo")

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

    def remember(self, key: str, text: str) -> list[str] | None:
        """Append a text to a list that the ranks share, and return the list; None if the text was in it.

        Not collective: any rank may do it at any time. The list ends with this group of processes.
        """
        store: Any = dist.distributed_c10d._get_default_store()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if store.add(f"{key}: {text}", 1) > 1:
            return None
        store.append(key, f"{text}\0")
        return store.get(key).decode().split("\0")[:-1]

    def close(self) -> None:
        """Leave the group."""
        self._end_watch()
        self._guard.close()
        # what was aborted cannot be left: that would wait for the others
        if not self._guard.has_cut and dist.is_initialized():
            dist.destroy_process_group()
