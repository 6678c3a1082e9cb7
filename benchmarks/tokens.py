"""How fast batches of tokens are read from page cache, next to Hugging Face datasets."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers import installed
from benchmarks.rounds import spread
from tools.tables import table
from trainer.pytorch.data import token_files

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

PEERS = (
    *("datasets==5.2.0", "dill==0.4.1", "hf-xet==1.8.0", "httpcore2==2.16.2", "httpx2==2.16.2"),
    *("huggingface_hub==2.4.0", "multiprocess==0.70.19", "pandas==3.1.1", "pyarrow==26.0.1", "python-dateutil==4.0.0"),
    *("truststore==0.10.5", "xxhash==4.1.0"),
)
ROUNDS = 5
SHAPES = ((256, 64), (1024, 32), (4096, 8))
"""Tokens of a sample, samples of a batch."""
_TOKENS = 32 << 20
_VOCABULARY = 50_257
_SECONDS = 3
_REPOSITORY = Path(__file__).resolve().parents[1]


def measure(report: Progress) -> Table:
    """Return the table: medians of rounds in which the readers take turns, one process with one thread each."""
    peers = installed(PEERS, report)
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        random = np.random.default_rng(0)
        splits = {split: random.integers(0, _VOCABULARY, size) for split, size in _SIZES.items()}
        token_files.write(data_dir, splits, vocabulary=_VOCABULARY)
        rows = [_row(data_dir, context, batch, peers, report) for context, batch in SHAPES]
    title = f"Tokens of uint16 from page cache, {ROUNDS} interleaved rounds, median (range)"
    return table(title, ["context x batch", "athanor", "datasets", "ratio"], rows)


def _row(data_dir: Path, context: int, batch: int, peers: Path, report: Progress) -> list[str]:
    speeds: dict[str, list[float]] = {"athanor": [], "datasets": []}
    for number in range(ROUNDS):
        for reader, values in speeds.items():
            report.detail(f"context {context}: round {number + 1} of {ROUNDS}, {reader}")
            values.append(_gigabytes_per_second(reader, data_dir, context, batch, peers))
    ours, theirs = (statistics.median(values) for values in speeds.values())
    return [
        f"{context} x {batch}",
        *(spread(values, "GB/s", 3) for values in speeds.values()),
        f"{ours / theirs:.0f} x",
    ]


def _gigabytes_per_second(reader: str, data_dir: Path, context: int, batch: int, peers: Path) -> float:
    sizes = ("--context", str(context), "--batch_size", str(batch), "--seconds", str(_SECONDS))
    command = [sys.executable, "-m", "benchmarks.token_readers", reader, "--data_dir", str(data_dir), *sizes]
    path = os.pathsep.join([str(_REPOSITORY), str(peers)])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(ended.stdout) / 1e9


_SIZES: dict[token_files.SplitName, int] = {"train": _TOKENS, "held_out": 1 << 16}
