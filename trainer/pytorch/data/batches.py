"""The batches of one rank, read on demand or ahead by other processes."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch

from trainer.common.validation import listed
from trainer.pytorch.data.prefetch import Prefetch
from trainer.pytorch.data.readers import Readers, import_ahead
from trainer.pytorch.data.transfer import batches_of_message, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from trainer.pytorch.data.damage import Report
    from trainer.pytorch.data.dataset import Batch, Dataset
    from trainer.pytorch.data.readers import Numbers
    from trainer.pytorch.data.sampler import IndexSampler

_LOOK_SECONDS = 0.5


class Sampler(Protocol):
    """Which samples the batches have, without end."""

    batch_size_per_rank: int

    def __next__(self) -> Tensor: ...


Samples = TypeVar("Samples", bound=Sampler)


class _Copies:
    """Copies batches to the device; to a GPU in a stream of their own, next to what it computes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def begin(self, batch: Batch) -> _OnItsWay:
        """Queue the copy of a batch that is pinned."""
        if self._stream is None:
            return _OnItsWay(batch.to(self._device), None)
        with torch.cuda.stream(self._stream):
            return _OnItsWay(batch.to(self._device), self._stream.record_event())


@dataclass(frozen=True)
class _OnItsWay:
    """A batch on the device, which a GPU may use once it is `arrived`."""

    _batch: Batch
    _done: Any  # torch.cuda.Event, which torch types in two ways; None on a CPU

    def arrived(self) -> Batch:
        """Return it, for the current stream, which waits for the copy; the host does not."""
        if self._done is not None:
            stream = torch.cuda.current_stream(self._batch.inputs.device)
            stream.wait_event(self._done)
            for each in self._batch.tensors:
                # its memory is the other stream's, which would give it to the next batch
                each.record_stream(stream)
        return self._batch


class Batches(Generic[Samples]):
    """Batches on the training device, indefinitely.

    Attributes:
        sampler: the position of the batches that were returned. What workers have read ahead does not count, so the
            position can be saved after any step, and a resumed run may have another number of workers.
    """

    def __init__(  # noqa: PLR0913  two to read from, and how
        self,
        dataset: Dataset,
        sampler: Samples,
        *,
        device: torch.device,
        workers: int = 0,
        give_up: Callable[[float], bool] = lambda _: False,
        report: Report | None = None,
    ) -> None:
        """Read nothing yet; what workers need is imported from now on, since the first batch would wait for it.

        Args:
            dataset: The samples.
            sampler: Where to begin.
            device: Where batches are returned.
            workers: Processes that read ahead; 0 reads each batch when it is asked for.
            give_up: Asked twice a second, while a batch of workers is not there yet, whether to end the iteration
                after so many seconds of waiting. It may raise.
            report: Gets the damaged samples that workers have left out.
        """
        self._dataset = dataset
        self.sampler = sampler
        self._workers = workers
        self._device = device
        self._give_up = give_up
        self._report = report
        self._numbers = torch.empty(0, dtype=torch.int64)
        self._readers: Readers | None = None
        self._ahead: Prefetch | None = None
        self._copies = _Copies(device)
        self._next: _OnItsWay | None = None
        if workers:
            import_ahead()

    def __iter__(self) -> Batches[Samples]:
        return self

    def __next__(self) -> Batch:
        """Return the next batch of this rank.

        Raises:
            DataError: a file is damaged; with workers also one of the few batches that would come next.
            DataWorkerError: a worker has ended.
            StopIteration: `give_up` said so.
        """
        if not self._workers:
            self._numbers = next(self.sampler)
            read = self._dataset.batch(self._numbers)
            return (read.pin_memory() if self._device.type == "cuda" else read).to(self._device)
        if self._ahead is None:
            self._ahead = self._read_ahead()
        batch = (self._next or self._awaited(self._ahead)).arrived()
        self._next = self._on_its_way(self._ahead)
        if self._report is not None:
            for each in batch.damaged:
                self._report(each)
        self._numbers = next(self.sampler)
        return batch

    def _awaited(self, ahead: Prefetch) -> _OnItsWay:
        """Return the next batch when it is read.

        Raises:
            StopIteration: `give_up` said so.
        """
        begin = time.monotonic()
        while (batch := ahead.take(_LOOK_SECONDS)) is None:
            if self._give_up(time.monotonic() - begin):
                raise StopIteration
        return self._copies.begin(batch)

    def _on_its_way(self, ahead: Prefetch) -> _OnItsWay | None:
        """Begin to copy the batch after the one that is returned, if it is read: a GPU copies while it computes."""
        if self._device.type != "cuda":
            return None
        try:
            batch = ahead.take(0)
        except Exception:  # noqa: BLE001  it is the next batch's, and comes again when that is asked for
            return None
        return batch and self._copies.begin(batch)

    def suspects(self, inputs: Tensor) -> str:
        """Name the samples of the last batch whose values are not finite numbers; all of it if there are none.

        Args:
            inputs: Of that batch, [N, ...].
        """
        bad = ~inputs.flatten(1).isfinite().all(dim=1).cpu()
        numbers = self._numbers[bad] if bad.any() else self._numbers
        names = listed([self._dataset.name(int(number)) for number in numbers])
        return f"{names}, which have values that are not finite" if bad.any() else names

    def load_state_dict(self: Batches[IndexSampler], state: dict[str, Any]) -> None:
        """Go to a position that `sampler.state_dict` returned; see there."""
        self.close()
        self.sampler.load_state_dict(state)

    def close(self) -> None:
        """End the processes; the next batch would start others."""
        if self._readers is not None:
            self._readers.end()
            self._readers = None
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        self._next = None

    def _read_ahead(self) -> Prefetch:
        # a copy, which runs ahead of the position that is saved
        ahead = copy.copy(self.sampler)
        numbers = _numbers(ahead, batches_of_message(self._dataset, ahead.batch_size_per_rank))
        self._readers = Readers(self._dataset, numbers, self._workers)
        return Prefetch(self._received(self._readers))

    def _received(self, readers: Readers) -> Iterator[Batch]:
        """Yield batches that processes have read; in the thread that waits for them."""
        on_gpu = self._device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(self._device)  # each thread begins with GPU 0, and would open it
        for message in readers:
            for batch in unpacked(message):
                yield batch.pin_memory() if on_gpu else batch


def _numbers(sampler: Sampler, batches: int) -> Iterator[Numbers]:
    while True:
        yield [next(sampler).numpy() for _ in range(batches)]
