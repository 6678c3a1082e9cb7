"""One reader of tokens: `python -m benchmarks.token_readers athanor …` or `datasets …`, from page cache.

Both return shuffled batches of samples that do not overlap, as int64 tensors on the CPU, and read everything once
before it counts. The peer does as the documentation of Hugging Face datasets says ("Use with PyTorch", November 2026):
a data set on disk, mapped into memory, in torch's format, in a DataLoader. Prints bytes of tokens per second.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from trainer.pytorch.data.tokens import TokensConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

_TOKEN_BYTES = 2
_SAMPLES_OF_A_RECORD_BATCH = 1000
"""As the peer's own writer has them."""


def main() -> None:
    """Read for some seconds and print how fast."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=sorted(READERS))
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(_bytes_per_second(READERS[given.reader](given), given.seconds))


def _bytes_per_second(batches: Iterator[Tensor], seconds: float) -> float:
    """Return the bytes that batches had in the file per second; they are int64 [N, context]."""
    read = 0
    begin = time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        batch = next(batches)
        assert batch.dtype == torch.int64
        read += batch.numel() * _TOKEN_BYTES
    return read / took


def _ours(given: argparse.Namespace) -> Iterator[Tensor]:
    data = TokensConfig(data_dir=given.data_dir).open("train", (given.context,))
    for indices in torch.arange(len(data)).split(given.batch_size):
        data.batch(indices)
    orders = (torch.randperm(len(data)) for _ in iter(int, 1))
    return (data.batch(indices).inputs for order in orders for indices in order.split(given.batch_size))


def _peers(given: argparse.Namespace) -> Iterator[Tensor]:
    file = given.data_dir / f"context-{given.context}.arrow"
    if not file.exists():
        _write_arrow(file, np.fromfile(given.data_dir / "train.bin", np.uint16), given.context)
    peer: Any = import_module("datasets")
    data = peer.Dataset.from_file(str(file)).with_format("torch")
    for begin in range(0, len(data), given.batch_size):
        data[begin : begin + given.batch_size]
    loader = DataLoader(data, given.batch_size, shuffle=True)
    return (batch["tokens"].long() for _ in iter(int, 1) for batch in loader)


def _write_arrow(file: Path, tokens: NDArray[np.uint16], context: int) -> None:
    """Write samples as a column of fixed-size lists in a stream of record batches, the files of the peer."""
    arrow: Any = import_module("pyarrow")
    values = arrow.array(tokens[: len(tokens) // context * context])
    column = arrow.FixedSizeListArray.from_arrays(values, context)
    whole = arrow.table({"tokens": column})
    with arrow.ipc.new_stream(str(file), whole.schema) as stream:
        stream.write_table(whole, max_chunksize=_SAMPLES_OF_A_RECORD_BATCH)


READERS = {"athanor": _ours, "datasets": _peers}

if __name__ == "__main__":
    main()
