"""A second process of each rank, which writes checkpoints while the first one trains.

A thread copies the state to shared memory while the next step computes its gradients. Training waits only if the copy
is not done when that step is about to change the parameters. The processes of all ranks are a process group of their
own: collectives of a save never meet those of training.

torch has the same in `async_save` with `AsyncCheckpointerType.PROCESS` (torch 2.15), whose copy of a state is reused
here. But its process is killed by the SIGTERM that torchrun sends to a rank's whole process group, during a save; the
ranks start theirs together, but only those that have none, so one that could not start its own blocks the others; a
rank that fails cannot end before its save does, for up to half an hour; and its thread waits for the copy on the GPU
that is current there, which is GPU 0 (`DefaultStager` in staging.py).
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.checkpoint._state_dict_stager import StateDictStager
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_saver import save  # pyright: ignore[reportUnknownVariableType]

from trainer.pytorch.checkpoints.errors import reasons
from trainer.pytorch.checkpoints.size import local_bytes
from trainer.pytorch.data.worker_count import SHARED_MEMORY
from trainer.training.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from trainer.pytorch.checkpoints.writer import CheckpointWriter
    from trainer.pytorch.distributed import Distributed

_END_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """The store in which the background processes of all ranks meet."""

    rank: int
    world_size: int
    host: str
    port: int
    timeout_seconds: int

    def join(self) -> None:
        """Join the others; a rank alone needs no address."""
        limit = timedelta(seconds=self.timeout_seconds)
        alone = self.world_size == 1
        store = dist.HashStore() if alone else dist.TCPStore(self.host, self.port, timeout=limit)  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size, timeout=limit)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The outcome of a save."""

    failure: str | None
    """Reason of its failure, None without one."""
    usable: bool = True
    """Whether the process can save again."""


class _Copy:
    """The copy of one state to shared memory; on a GPU in a stream of its own, next to training's."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        """Let it follow what training has queued until now.

        Args:
            stream: Where a GPU copies; None on the CPU.
        """
        self._stream = stream
        self._state_is_there = None if stream is None else torch.cuda.current_stream(stream.device).record_event()
        self._is_queued = threading.Event()
        self._is_done: torch.cuda.Event | None = None

    def run(self, state: dict[str, Any], stager: StateDictStager) -> Any:  # noqa: ANN401  as nested as the state
        """Copy, and return the copy when it is whole; in the thread of the copies."""
        try:
            if self._stream is None or self._state_is_there is None:
                return stager.stage(state)
            torch.cuda.set_device(self._stream.device)  # each thread begins with GPU 0, and would open it
            with torch.cuda.stream(self._stream):
                self._stream.wait_event(self._state_is_there)
                try:
                    return stager.stage(state, non_blocking=True)
                finally:
                    # also after a failure: neither side of a copy that is queued may be freed before it is done
                    done = torch.cuda.Event(blocking=True)
                    done.record(self._stream)
                    self._is_done = done
                    self._is_queued.set()
                    done.synchronize()
        finally:
            self._is_queued.set()

    def wait(self) -> None:
        """Let what the calling thread does from now on follow the copy: a GPU waits for it, this thread does not."""
        self._is_queued.wait()
        if self._is_done is not None and self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._is_done)


class Background:
    """The background process of this rank."""

    def __init__(self, distributed: Distributed) -> None:
        """Start the process, without waiting until it is there. Collective.

        Raises:
            OSError, MainRankError: rank 0 could not open a port, or a process could not be started.
        """
        on_gpu = distributed.device.type == "cuda"
        self._stream = torch.cuda.Stream(distributed.device) if on_gpu else None
        # All of it pinned, also a number of 4 bytes such as AdamW's step, which torch would leave out: a copy to other
        # memory returns when all before it in the stream are done, and `copy_` of a storage keeps the interpreter's
        # lock meanwhile (torch 2.15, torch/csrc/StorageMethods.cpp), so that training would stop.
        self._stager = StateDictStager(pin_memory=on_gpu, share_memory=True, pin_memory_min_bytes=1)
        self._store: dist.TCPStore | None = None  # pyright: ignore[reportPrivateImportUsage]
        meeting = Meeting(
            rank=distributed.rank,
            world_size=distributed.world_size,
            host=distributed.main_host,
            port=distributed.on_main(self._open_store) if distributed.world_size > 1 else 0,
            timeout_seconds=distributed.checkpoint_timeout_seconds,
        )
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, meeting), name="checkpoints", daemon=True)
        _start_unstoppable(self._process)
        # so that each side reads the end of the pipe when the other one is gone
        theirs.close()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoints")
        self._copy: _Copy | None = None
        self.is_usable = True

    @staticmethod
    def lacks(state: dict[str, Any], ranks_on_node: int) -> str:
        """Say what is missing to copy such a state to shared memory; empty if nothing is."""
        needed, free = local_bytes(state) * ranks_on_node, shutil.disk_usage(SHARED_MEMORY).free
        if needed <= free:
            return ""
        return f"{SHARED_MEMORY} has {free / 1e6:,.0f} MB free, the state of {ranks_on_node} ranks {needed / 1e6:,.0f}"

    def start(self, state: dict[str, Any], writer: CheckpointWriter) -> Future[Answer]:
        """Begin to copy the state, and have it written; the former save must have ended.

        The tensors must not change before `wait_for_copy` returns, nor on a GPU in another stream than its caller's.
        """
        copy = self._copy = _Copy(self._stream)
        return self._thread.submit(self._save, state, writer, copy)

    def wait_for_copy(self) -> None:
        """Wait until the tensors of the last `start` may change, in the stream of the caller."""
        if self._copy is not None:
            self._copy.wait()

    def close(self) -> None:
        """End the process; what it is writing is lost, unless it was awaited."""
        self._process.kill()
        self._process.join(_END_SECONDS)
        self._thread.shutdown()
        self._pipe.close()
        self._stager.close()
        self._store = None

    def _open_store(self) -> int:
        self._store = dist.TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)  # noqa: S104 # pyright: ignore[reportPrivateImportUsage]
        return self._store.port

    def _save(self, state: dict[str, Any], writer: CheckpointWriter, copy: _Copy) -> Answer:
        try:
            staged = copy.run(state, self._stager)
        except Exception as error:  # noqa: BLE001  whatever it is, training must not wait for the copy forever
            # without its process the save of the other ranks fails, too, instead of waiting for this one
            self._process.kill()
            self.is_usable = False
            return Answer(failure=f"the state could not be copied to {SHARED_MEMORY}: {error!r}", usable=False)
        return self._exchange((staged, writer))

    def _exchange(self, request: object) -> Answer:
        try:
            self._pipe.send(request)
            answer: Answer = self._pipe.recv()
        except (OSError, EOFError) as error:
            status = self._process.exitcode
            answer = Answer(failure=f"its process is gone, status {status} ({error!r})", usable=False)
        self.is_usable = answer.usable
        return answer


def _start_unstoppable(process: BaseProcess) -> None:
    """Start a process that inherits blocked stop signals: importing torch takes seconds before it ignores them."""
    resource_tracker.ensure_running()  # which else would start now, and unblock them
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _serve(requests: Connection, meeting: Meeting) -> None:
    """Write one state after the other, until the rank ends."""
    # torch's writer asks for the current GPU, GPU 0 here, and opens it with half a GB (torch 2.15, filesystem.py,
    # `_OverlappingCpuLoader`). The variable is read when CUDA starts, which no import does.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # torchrun and terminals signal whole process groups; a save that has begun is to be finished
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    # says of every shard that arrives here that its mesh has no process groups, which no save needs
    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)
    try:
        meeting.join()
        while True:
            state, writer = requests.recv()
            answer = _save(state, writer)
            requests.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the rank is gone
    except Exception as error:  # noqa: BLE001  the rank hears of any failure, and saves by itself from then on
        requests.send(Answer(failure=f"{type(error).__name__}: {error}", usable=False))


def _save(state: dict[str, Any], writer: CheckpointWriter) -> Answer:
    try:
        save(state, storage_writer=writer)
    except CheckpointException as error:
        return Answer(failure=reasons(error))
    return Answer(failure=None)
