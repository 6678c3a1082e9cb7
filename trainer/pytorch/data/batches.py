"""The training batches of one rank, read when they are needed or ahead of that by other processes."""

from __future__ import annotations

import copy
import os
import signal
import threading
from itertools import chain
from multiprocessing import parent_process, resource_tracker
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from trainer.pytorch.data.prefetch import Prefetch
from trainer.pytorch.data.transfer import batches_of_message, packed, unpacked
from trainer.training.digits import DataError
from trainer.training.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from trainer.pytorch.data.dataset import Batch, Dataset
    from trainer.pytorch.data.sampler import IndexSampler
    from trainer.pytorch.data.transfer import PipedBatch

_NICENESS = 5
"""Of the readers: they work ahead, while a step that loses its core is late. A rank that waits leaves them its own."""


class Batches:
    """Endless batches on the training device.

    Attributes:
        sampler: the position of the batches that were returned. What workers have read ahead does not count, so the
            position can be saved after any step, and a resumed run may have another number of workers.
    """

    def __init__(self, dataset: Dataset, sampler: IndexSampler, *, workers: int, device: torch.device) -> None:
        """Start no process yet.

        Args:
            dataset: The samples.
            sampler: Where to begin.
            workers: Processes that read ahead; 0 reads each batch when it is asked for.
            device: Where batches are returned.
        """
        self._dataset = dataset
        self.sampler = sampler
        self._workers = workers
        self._device = device
        self._ahead: Prefetch | None = None

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch:
        """Return the next batch of this rank.

        Raises:
            DataError: a file is damaged; with workers also one of the few batches that would come next.
        """
        if not self._workers:
            return self._dataset.batch(next(self.sampler)).to(self._device)
        if self._ahead is None:
            self._ahead = Prefetch(chain.from_iterable(map(unpacked, self._read_ahead())))
        batch = next(self._ahead)
        next(self.sampler)
        return batch.to(self._device)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position that `sampler.state_dict` returned; see there."""
        self.close()
        self.sampler.load_state_dict(state)

    def close(self) -> None:
        """End the processes; the next batch would start others."""
        if self._ahead is not None:
            # it holds the last reference: the loader's iterator waits for its processes when it is deleted
            self._ahead.close()
            self._ahead = None

    def _read_ahead(self) -> Iterator[list[Batch | PipedBatch] | DataError]:
        kind: Any = DataLoader  # whose types know lists of samples alone
        # a copy, which runs ahead of the position that is saved
        ahead = copy.copy(self.sampler)
        loader = kind(
            _ByMessage(self._dataset),
            batch_sampler=_numbers(ahead, batches_of_message(self._dataset, ahead.batch_size_per_rank)),
            num_workers=self._workers,
            collate_fn=packed,
            pin_memory=self._device.type == "cuda",
            worker_init_fn=_begin_reading,
            # not a fork of this process: its children would keep the sockets open by which others notice its end
            multiprocessing_context="forkserver",
            # else the loader would draw a number from the generator that dropout draws from
            generator=torch.Generator(),
        )
        # torchrun and terminals send signals to the whole group of processes. Only the rank answers them, by saving,
        # and for its last step it needs the others: they inherit what is blocked here, until `_leave_group`.
        resource_tracker.ensure_running()  # which else would start now, and unblock them
        former = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            return iter(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


class _ByMessage:
    """A data set as torch's loader takes it: `__getitems__` gets all numbers of a message, an array for each batch."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, numbers: list[NDArray[np.int64]]) -> list[Batch] | DataError:
        try:
            return [self._dataset.batch(torch.from_numpy(each)) for each in numbers]  # pyright: ignore[reportUnknownMemberType]
        except DataError as error:
            # a message like any other: raised here, it would reach the rank as the text of a traceback
            return error


def _numbers(sampler: IndexSampler, batches: int) -> Iterator[list[NDArray[np.int64]]]:
    """Yield the numbers of each message's samples, as arrays: tensors would be files of shared memory on their way."""
    while True:
        yield [next(sampler).numpy() for _ in range(batches)]


def _begin_reading(_worker: int) -> None:
    """Prepare a process that reads: where there is not a core for each, the rank comes first."""
    os.nice(_NICENESS)
    _leave_group()


def _leave_group() -> None:
    """Let no signal reach this process that is not for it alone, such as the one that ends it with the rank."""
    os.setpgid(0, 0)
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # forgets one that was for the group
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.signal(signal.SIGTERM, former)
    # torch's own watch is for the parent, which is the fork server: that would outlive a rank that is killed
    threading.Thread(target=_end_with_rank, daemon=True).start()


def _end_with_rank() -> None:
    rank = parent_process()
    assert rank is not None, "a reader is not started by itself"
    rank.join()
    os._exit(1)
