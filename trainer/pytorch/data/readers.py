"""Processes that read a rank's batches ahead, each with pipes of its own.

torch's loader has one pipe for all workers, which the rank, too, holds open for writing: after a worker was killed
within a message, the rank waits forever for the rest (torch 2.15: `_try_get_data` looks for dead workers only while
nothing has arrived). Here each process is the only writer of its pipe, which ends with it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from multiprocessing import forkserver, get_context, process, resource_tracker
from typing import TYPE_CHECKING

import torch

from trainer.pytorch.data.transfer import packed
from trainer.training.digits import DataError
from trainer.training.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext
    from multiprocessing.process import BaseProcess

    import numpy as np
    from numpy.typing import NDArray

    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.data.transfer import Message

    Numbers = list[NDArray[np.int64]]
    """The samples of a message, an array for each batch: tensors would be files of shared memory on their way."""

_NICENESS = 5
"""Niceness of the readers: they work ahead, while a step that loses its core is late. A rank that waits leaves them its
own."""
_END_SECONDS = 5.0
"""Longest wait for the end of a process: one that waits for a volume may be beyond any signal."""
_MEMORY_FIX = "Fix: more memory for the pod, or a lower --data_workers or --batch_size"
_CAUSES = {
    signal.SIGKILL: f"as the kernel does where memory is short. {_MEMORY_FIX}",
    signal.SIGBUS: f"as where /dev/shm is full. {_MEMORY_FIX}",
}


class DataWorkerError(RuntimeError):
    """A process that reads for this rank has ended; the message says how, and what to do."""


class Readers:
    """The messages of several processes, in the order of their numbers; each process reads one message ahead."""

    def __init__(self, dataset: Dataset, numbers: Iterator[Numbers], count: int) -> None:
        """Start no process yet.

        Args:
            dataset: The samples.
            numbers: Of each message, indefinitely.
            count: How many processes.
        """
        self._dataset, self._numbers, self._count = dataset, numbers, count
        self._readers: list[_Reader] = []
        self._has_ended = False

    def __iter__(self) -> Iterator[Message]:
        """Start the processes and yield their messages, indefinitely.

        Raises:
            DataWorkerError: the process whose turn it is has ended.
        """
        self._start()
        for reader in self._readers:
            reader.ask(next(self._numbers))
        while True:
            for reader in self._readers:
                message = reader.receive()
                reader.ask(next(self._numbers))
                yield message

    def end(self) -> None:
        """End the processes: a thread that waits for one of them gets a `DataWorkerError`."""
        self._has_ended = True
        for reader in self._readers:
            reader.process.kill()
        deadline = time.monotonic() + _END_SECONDS
        # of those that still exist then, Python would wait for the end, however long that takes: it has no public name
        known: set[BaseProcess] = vars(process)["_children"]
        for reader in self._readers:
            reader.status_within(max(0, deadline - time.monotonic()))
            known.discard(reader.process)

    def _start(self) -> None:
        with _forks_without_signals() as context:
            for number in range(self._count):
                self._readers.append(_Reader(self._dataset, context, f"data worker {number + 1} of {self._count}"))
                if self._has_ended:  # while this one started
                    self.end()


def import_ahead() -> None:
    """Start the process that readers are forks of, which imports torch while its caller does something else."""
    with _forks_without_signals():
        forkserver.ensure_running()


@contextmanager
def _forks_without_signals() -> Generator[ForkServerContext]:
    """Let what starts meanwhile inherit that stop signals are blocked, until `_leave_group`.

    torchrun and terminals send signals to the whole group of processes. Only the rank answers them, by saving, and for
    its last step it needs the readers.
    """
    # not forks of this process: they would hold the ends of pipes and sockets by which others notice its end
    context = get_context("forkserver")
    # torch once for all of them: importing it takes each process seconds of CPU and a few hundred MB
    context.set_forkserver_preload([__name__])
    resource_tracker.ensure_running()  # which else would start below, and unblock them
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield context
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


class _Reader:
    """One process, from the rank's side."""

    def __init__(self, dataset: Dataset, context: ForkServerContext, title: str) -> None:
        theirs, self._numbers = context.Pipe(duplex=False)
        self._messages, ours = context.Pipe(duplex=False)
        self._title = title
        self._status_lock = threading.Lock()
        self.process = context.Process(target=_read, args=(dataset, theirs, ours), name=title, daemon=True)
        with theirs, ours:  # else this process would keep them open
            try:
                self.process.start()
            except (OSError, EOFError) as error:
                raise DataWorkerError(f"{title} could not be started: {error!r}. {_MEMORY_FIX}") from error

    def ask(self, numbers: Numbers) -> None:
        # All of the last message was received, so the other side is about to read.
        try:
            self._numbers.send(numbers)
        except OSError as error:
            raise self._lost() from error

    def receive(self) -> Message:
        try:
            return self._messages.recv()
        except (OSError, EOFError) as error:  # also of the socket that large tensors come from
            raise self._lost() from error

    def status_within(self, seconds: float) -> int | None:
        """Return the exit status of the process, None if it still exists after so long."""
        with self._status_lock:  # the fork server says it once, and only one thread would get it
            self.process.join(seconds)
            return self.process.exitcode

    def _lost(self) -> DataWorkerError:
        status = self.status_within(_END_SECONDS)
        who = f"{self._title} (process {self.process.pid})"
        if status is None or status >= 0:
            return DataWorkerError(f"{who} ended with status {status}. Fix: its own message above says why")
        number = signal.Signals(-status)
        cause = _CAUSES.get(number, "Fix: find out who sent it")
        return DataWorkerError(f"{who} was killed by {number.name}, {cause}")


def _read(dataset: Dataset, numbers: Connection, messages: Connection) -> None:
    """Answer each list of numbers by a message, until the rank closes its ends or is gone; in the process."""
    os.nice(_NICENESS)
    torch.set_num_threads(1)
    _leave_group()
    while True:
        try:
            asked: Numbers = numbers.recv()
        except EOFError:
            return
        message = _message(dataset, asked)
        try:
            messages.send(message)
        except BrokenPipeError:
            return


def _message(dataset: Dataset, numbers: Numbers) -> Message:
    try:
        return packed([dataset.batch(torch.from_numpy(each)) for each in numbers])  # pyright: ignore[reportUnknownMemberType]
    except DataError as error:
        return error


def _leave_group() -> None:
    """Let no signal reach this process that is not for it alone, such as the one that ends it with the rank."""
    os.setpgid(0, 0)
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # forgets one that was for the group
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.signal(signal.SIGTERM, former)
