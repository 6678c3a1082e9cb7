"""One training as the documentation of a peer writes it: `python -m benchmarks.training_peers plain …`, under torchrun.

ResNet-18 on files in CIFAR-10's format, held in memory, fused AdamW, images as channels last, a DataLoader and a
DistributedSampler: what the trainer has switched on, the peers have, too. Sources, as of
November 2026: the tutorials of PyTorch ("Training a Classifier", "Getting Started with Distributed Data Parallel"), of
Fabric ("Convert PyTorch code to Fabric") and of Accelerate ("Add Accelerate to your code"). Prints the seconds of the
steps that count as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from trainer.pytorch.models.resnet import ResNetConfig
from trainer.training import cifar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

Batch = Sequence[Any]
Contender = tuple["Callable[[Batch], float]", "Iterable[Batch]"]
"""What does a step with a batch, and what has the batches."""


class Images(Dataset[tuple["Tensor", int]]):
    """The training images, one by one, as float32 [3, 32, 32] from 0 to 1."""

    def __init__(self, data_dir: Path) -> None:
        self._samples = cifar.load(data_dir, "train")

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = np.asarray(self._samples.images[index], dtype=np.float32) / 255
        return torch.from_numpy(image), int(self._samples.labels[index])


def main() -> None:
    """Train for some steps and print how long each took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=sorted(FRAMEWORKS))
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--batch_size", type=int, required=True, help="of a rank")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--loader_workers", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    step, loader = FRAMEWORKS[given.framework](_network(), Images(given.data_dir), given)
    print(json.dumps(_timed(step, loader, given.steps)))
    if dist.is_initialized():
        dist.destroy_process_group()


def _network() -> nn.Module:
    network: Any = ResNetConfig().build()
    return network.to(memory_format=torch.channels_last)  # torch's types of `to` lack it


def _optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)


def _inputs(batch: Batch) -> tuple[Tensor, Tensor]:
    images, labels = batch
    return images.to(memory_format=torch.channels_last), labels


def _timed(step: Callable[[Batch], float], loader: Iterable[Batch], steps: int) -> list[float]:
    """Return the seconds of each step, the wait for its data included."""
    seconds: list[float] = []
    begin = time.perf_counter()
    while True:
        for batch in loader:
            step(batch)
            now = time.perf_counter()
            seconds.append(now - begin)
            begin = now
            if len(seconds) == steps:
                return seconds


def _loader(data: Images, given: argparse.Namespace, sampler: DistributedSampler[Any] | None = None) -> DataLoader[Any]:
    shuffle, workers = sampler is None, given.loader_workers
    return DataLoader(data, given.batch_size, shuffle=shuffle, sampler=sampler, num_workers=workers, drop_last=True)


def _plain(network: nn.Module, data: Images, given: argparse.Namespace) -> Contender:
    dist.init_process_group("gloo")
    alone = dist.get_world_size() == 1
    model = network if alone else DistributedDataParallel(network)
    optimizer = _optimizer(network)

    def step(batch: Batch) -> float:
        images, labels = _inputs(batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=given.bf16):
            loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, _loader(data, given, DistributedSampler(data))


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, backward: Callable[[Tensor], None]
) -> Callable[[Batch], float]:
    """Return the step of a loop whose framework computes the gradients."""

    def step(batch: Batch) -> float:
        images, labels = _inputs(batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        backward(loss)
        optimizer.step()
        return loss.item()

    return step


def _fabric(network: nn.Module, data: Images, given: argparse.Namespace) -> Contender:
    from lightning_fabric import Fabric  # noqa: PLC0415

    ranks = int(os.environ["WORLD_SIZE"])
    precision = "bf16-mixed" if given.bf16 else "32-true"
    fabric = Fabric(accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto", precision=precision)
    fabric.launch()
    model, optimizer = fabric.setup(network, _optimizer(network))

    return _step(model, optimizer, fabric.backward), fabric.setup_dataloaders(_loader(data, given))


def _accelerate(network: nn.Module, data: Images, given: argparse.Namespace) -> Contender:
    from accelerate import Accelerator  # noqa: PLC0415

    accelerator = Accelerator(cpu=True, mixed_precision="bf16" if given.bf16 else "no")
    optimizer = _optimizer(network)
    model, optimizer, loader = accelerator.prepare(network, optimizer, _loader(data, given))

    return _step(model, optimizer, accelerator.backward), loader


FRAMEWORKS = {"plain": _plain, "fabric": _fabric, "accelerate": _accelerate}

if __name__ == "__main__":
    main()
