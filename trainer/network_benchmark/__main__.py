"""Measures a network: `torchrun … -m trainer.network_benchmark --network NAME --output_dir …`."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import cross_entropy, relu
from torch.nn.parallel import DistributedDataParallel

from trainer.network_benchmark.all_reduce import LARGEST_BYTES, measure, median_seconds, sizes
from trainer.network_benchmark.config import NetworkBenchmarkConfig, parse
from trainer.network_benchmark.report import all_reduce_table, comparison
from trainer.network_benchmark.result import FOLDER, Result, read_all, write
from trainer.pod_modules.athanor_heartbeat import Heartbeat
from trainer.pytorch.distributed import Distributed
from trainer.pytorch.runtime import RuntimeConfig
from trainer.training.events import EventLog

if TYPE_CHECKING:
    from trainer.network_benchmark.all_reduce import AllReduce

_CLASSES = 10
_IMAGE = (3, 32, 32)
_WARM_UP_STEPS = 3


class ResidualBlock(nn.Module):
    """Two convolutions with a shortcut.

    Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, figure 2 and section 3.3.
    """

    def __init__(self, channels_in: int, channels_out: int, *, stride: int) -> None:
        super().__init__()
        self.first = _convolution(channels_in, channels_out, kernel_size=3, stride=stride)
        self.second = _convolution(channels_out, channels_out, kernel_size=3, stride=1)
        self.shortcut = _convolution(channels_in, channels_out, kernel_size=1, stride=stride)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of half the height and width for stride 2."""
        return relu(self.second(relu(self.first(features))) + self.shortcut(features))


def build_model(width: int) -> nn.Module:
    """Return a network of three residual blocks for images float32 [N, 3, 32, 32]; logits float32 [N, 10]."""
    return nn.Sequential(
        ResidualBlock(_IMAGE[0], width, stride=1),
        ResidualBlock(width, 2 * width, stride=2),
        ResidualBlock(2 * width, 4 * width, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, _CLASSES),
    )


def images_per_second(*, steps: int, batch_size: int, width: int, distributed: Distributed) -> float:
    """Train on made-up images and return the images per second of one rank, mean over the ranks."""
    device = distributed.device
    model = DistributedDataParallel(build_model(width).to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch_size, *_IMAGE, device=device)
    labels = torch.randint(_CLASSES, (batch_size,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()  # pyright: ignore[reportUnknownMemberType]
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]

    for _ in range(_WARM_UP_STEPS):
        step()
    return batch_size / median_seconds(step, steps, distributed)


def _convolution(channels_in: int, channels_out: int, *, kernel_size: int, stride: int) -> nn.Module:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size, stride=stride, padding=kernel_size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))


def run(config: NetworkBenchmarkConfig) -> Result:
    """Measure, write and print; every rank calls it and gets the same result.

    Raises:
        ValueError: there is only one rank, or the GPUs do not fit.
        MainRankError, OSError: the output folder cannot be written; before anything is measured.
    """
    with ExitStack() as stack:
        distributed = Distributed(config.distributed)
        stack.callback(distributed.close)
        if distributed.world_size < 2:
            fix = "Fix: torchrun with two workers or more"
            raise ValueError(f"world_size={distributed.world_size}: one process has no network to measure. {fix}")
        # the fastest kernels: results need not be the same bits again
        RuntimeConfig(deterministic=False).apply(distributed.device, processes_per_node=distributed.local_world_size)
        for folder in (config.output_dir / FOLDER, config.logs, config.work_dir):
            folder.mkdir(parents=True, exist_ok=True)
        events = EventLog(config.logs, job=config.run_name, rank=distributed.rank)
        stack.callback(events.close)
        heartbeat = Heartbeat(config.work_dir, rank=distributed.rank)

        all_reduce: list[AllReduce] = []
        for step, num_bytes in enumerate(sizes(config.max_bytes or LARGEST_BYTES[distributed.device.type]), start=1):
            all_reduce.append(measure(num_bytes, config.rounds, distributed))
            heartbeat.beat(step)
            events.write("all_reduce", step=step, num_bytes=num_bytes, microseconds=all_reduce[-1].microseconds)
        result = _result(config, distributed, all_reduce, _measure_images(config, distributed))
        distributed.on_main(lambda: _publish(result, config))
        events.write("finished", step=len(all_reduce), images_per_second=result.images_per_second)
        return result


def _measure_images(config: NetworkBenchmarkConfig, distributed: Distributed) -> float | None:
    if not config.image_steps:
        return None
    return images_per_second(
        steps=config.image_steps,
        batch_size=config.image_batch_size,
        width=config.image_width,
        distributed=distributed,
    )


def _result(
    config: NetworkBenchmarkConfig, distributed: Distributed, all_reduce: list[AllReduce], images: float | None
) -> Result:
    on_gpu = distributed.device.type == "cuda"
    return Result(
        network=config.network,
        run_name=config.run_name,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        world_size=distributed.world_size,
        ranks_per_pod=distributed.local_world_size,
        backend="nccl" if on_gpu else "gloo",
        device=torch.cuda.get_device_name(distributed.device) if on_gpu else "cpu",
        hosts=distributed.gather(socket.gethostname()),
        torch_version=torch.__version__,
        all_reduce=all_reduce,
        image_batch_size=config.image_batch_size,
        image_width=config.image_width,
        images_per_second_per_rank=images,
    )


def _publish(result: Result, config: NetworkBenchmarkConfig) -> None:
    path = write(result, config.output_dir)
    hosts, pods = ", ".join(dict.fromkeys(result.hosts)), result.world_size // result.ranks_per_pod
    print(f"network {result.network}: {result.world_size} ranks in {pods} pods ({hosts}), {result.backend}, {path}")
    print(all_reduce_table(result))
    print("\nall networks measured so far")
    print(comparison(read_all(config.output_dir)), flush=True)


@record
def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: 2 for wrong arguments, 1 after saying why nothing was measured.
    """
    try:
        run(parse())
    except ValueError as error:
        sys.exit(f"network_benchmark: {error}")


if __name__ == "__main__":
    main()
