"""Measures a network: `torchrun … -m trainer.network_benchmark --network NAME --output_dir …`."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from trainer.network_benchmark.all_reduce import LARGEST_BYTES, measure, sizes
from trainer.network_benchmark.config import NetworkBenchmarkConfig, parse
from trainer.network_benchmark.images import images_per_second
from trainer.network_benchmark.report import all_reduce_table, comparison
from trainer.network_benchmark.result import FOLDER, Result, read_all, write
from trainer.pod_modules.athanor_heartbeat import Heartbeat
from trainer.pytorch.distributed import Distributed
from trainer.pytorch.runtime import RuntimeConfig
from trainer.training.events import EventLog

if TYPE_CHECKING:
    from trainer.network_benchmark.all_reduce import AllReduce


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
