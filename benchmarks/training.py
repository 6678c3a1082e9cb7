"""Samples per second of the trainer next to the plain PyTorch loop, Lightning Fabric and Accelerate, on this CPU.

All train the same ResNet-18 with AdamW on the same files in CIFAR-10's format, each in processes of its own under
torchrun, in turn. The trainer runs as in a pod, with its checks, metrics and event log; the peers run what their
documentation shows (`benchmarks/training_peers.py`) with what the trainer switches on, and read data in the process of
the step or in two others.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers import installed
from benchmarks.rounds import spread
from tools.tables import table
from trainer.training import cifar

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 3
PEERS = ("lightning-fabric==2.6.6", "lightning-utilities==0.15.3", "accelerate==1.15.0", "huggingface_hub==2.4.0")
"""Installed outside the repository, without their dependencies: torch and the rest are the trainer's own."""
_REPOSITORY = Path(__file__).resolve().parents[1]
_BATCH = 64
_WARM_UP, _STEPS = 2, 8
_HUNG_SECONDS, _TRIES = 120, 3
"""A DataLoader's worker that is forked while other threads hold a lock waits forever: seen once in 30 runs of peers."""
_OURS = "athanor"
_PEERS = ("plain", "fabric", "accelerate")
_LOADER_WORKERS = (0, 2)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all contenders do in a table's row."""

    name: str
    ranks: int
    bf16: bool = False


SETTINGS = (
    Setting(name="fp32, 1 process", ranks=1),
    Setting(name="fp32, 2 processes", ranks=2),
    Setting(name="bf16, 1 process", ranks=1, bf16=True),
)


def measure(report: Progress) -> Table:
    """Return the table: medians of rounds in which the contenders take turns."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        _write_images(data_dir)
        peers = installed(PEERS, report)
        rows = [_row(setting, data_dir, peers, report) for setting in SETTINGS]
    names = [*_contenders(SETTINGS[0])]
    title = (
        f"ResNet-18, CIFAR-10's format, batch {_BATCH}, channels last, fused AdamW: samples/s, {ROUNDS} interleaved"
        " rounds, median (range)"
    )
    return table(title, ["", *names, f"ours over the better one of {', '.join(_PEERS)}"], rows)


def _row(setting: Setting, data_dir: Path, peers: Path, report: Progress) -> list[str]:
    speeds: dict[str, list[float]] = {name: [] for name in _contenders(setting)}
    for number in range(ROUNDS):
        for name, words in _contenders(setting).items():
            report.detail(f"{setting.name}: round {number + 1} of {ROUNDS}, {name}")
            speeds[name].append(_samples_per_second(name, words, setting, data_dir, peers))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    best = {name: max(medians[_peer(name, workers)] for workers in _LOADER_WORKERS) for name in _PEERS}
    ratios = ", ".join(f"{medians[_OURS] / best[name]:.2f}" for name in _PEERS)
    return [setting.name, *(spread(values, "", 1) for values in speeds.values()), ratios]


def _contenders(setting: Setting) -> dict[str, list[str]]:
    precision = ["--precision", "bf16_autocast"] if setting.bf16 else []
    data = ["--dataset", "cifar10", "--model", "resnet", "--model_name", "images", "--channels_last"]
    bf16 = ["--bf16"] if setting.bf16 else []
    peers = {
        _peer(name, workers): ["benchmarks.training_peers", name, *bf16, "--loader_workers", str(workers)]
        for name in _PEERS
        for workers in _LOADER_WORKERS
    }
    return {_OURS: ["trainer.train", *data, *precision], **peers}


def _peer(name: str, workers: int) -> str:
    return f"{name}, {workers} workers"


def _samples_per_second(name: str, words: list[str], setting: Setting, data_dir: Path, peers: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        threads = max(1, (os.cpu_count() or 1) // setting.ranks)
        own = name == _OURS
        more = _our_options(Path(folder), threads) if own else _peer_options(setting, threads)
        launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={setting.ranks}", "-m"]
        command = [sys.executable, "-m", *launcher, *words, "--data_dir", str(data_dir), *more]
        printed = _output(command, threads, peers)
        seconds = _steps_of_ours(Path(folder)) if own else _steps_of_a_peer(printed)
    return _BATCH * len(seconds) / sum(seconds)


def _our_options(folder: Path, threads: int) -> list[str]:
    return [
        *("--output_dir", str(folder), "--work_dir", str(folder), "--num_gpu", "0", "--epochs", "1"),
        *("--batch_size", str(_BATCH), "--num_cpu_threads", str(threads), "--log_interval_steps", "1"),
        *("--checkpoint_interval_steps", "1000"),
    ]


def _peer_options(setting: Setting, threads: int) -> list[str]:
    sizes = ("--batch_size", str(_BATCH // setting.ranks), "--threads", str(threads))
    return [*sizes, "--steps", str(_WARM_UP + _STEPS)]


def _output(command: list[str], threads: int, peers: Path) -> str:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY), str(peers)]),
    }
    for _ in range(_TRIES):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                printed, errors = process.communicate(timeout=_HUNG_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                continue
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{errors[:3000]}")
        return printed
    raise RuntimeError(f"{' '.join(command)} was not done after {_HUNG_SECONDS} s, {_TRIES} times")


def _steps_of_ours(folder: Path) -> list[float]:
    """Return the seconds between the lines of the steps that count: all that the trainer does is in them."""
    [log] = folder.glob("*/logs/rank-00000.jsonl")
    events = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    times = [datetime.fromisoformat(event["time"]) for event in events if event["event"] == "step"]
    seconds = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    return seconds[_WARM_UP - 1 :]


def _steps_of_a_peer(printed: str) -> list[float]:
    """Return the seconds of the steps that count, of the rank that printed first."""
    seconds: list[float] = json.loads(next(line for line in printed.splitlines() if line.startswith("[")))
    return seconds[_WARM_UP:]


def _write_images(data_dir: Path) -> None:
    """Write as many images as the steps need, in CIFAR-10's files: random, since nobody looks at the accuracy."""
    folder = data_dir / cifar.FOLDER
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    each = -(-_BATCH * (_WARM_UP + _STEPS) // len(cifar.TRAIN_FILES))
    for name in (*cifar.TRAIN_FILES, cifar.TEST_FILE):
        images = random.integers(0, 256, (each, *cifar.IMAGE_SHAPE), dtype=np.uint8)
        labels = random.integers(0, cifar.NUM_CLASSES, each, dtype=np.uint8)
        (folder / name).write_bytes(cifar.encode(cifar.Samples(images=images, labels=labels)))
    (folder / cifar.NAMES_FILE).write_text("".join(f"class {number}\n" for number in range(cifar.NUM_CLASSES)))
