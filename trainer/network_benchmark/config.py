"""The command line of the network benchmark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.common.validation import at_least, file_name
from trainer.network_benchmark.all_reduce import SMALLEST_BYTES
from trainer.pytorch.distributed import DistributedConfig

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class NetworkBenchmarkConfig:
    """Measure all-reduce and a training step under one network, and compare it with the networks measured before."""

    network: str
    """Name of the network that this run uses, for example `shared-eni`; a second run under this name replaces it."""
    output_dir: Path
    """Folder of the results, the same volume for all workers and all networks to be compared."""
    data_dir: Path | None = None
    """Not used, because the images are made up; taken so that all programs have the same arguments."""
    work_dir: Path = Path(tempfile.gettempdir()) / "athanor"
    """Scratch folder of this worker: heartbeat files."""
    log_dir: Path | None = None
    """Folder of the event logs, one file per rank; without it <output_dir>/<run_name>/logs."""
    run_name: str = "network-benchmark"
    """Name of this run in the result and in the event logs."""
    max_bytes: int | None = None
    """Largest all-reduce; the sizes are powers of 4 from 1 KiB to here. Default: 64 MiB, between GPUs 1 GiB: their
    bandwidth grows up to there."""
    rounds: int = 20
    """Measurements of each size; the result is their median."""
    image_steps: int = 20
    """Measured training steps; the result is their median. 0 measures all-reduce only."""
    image_batch_size: int = 32
    """Images of one training step in each process."""
    image_width: int = 16
    """Channels of the model's first stage; the gradients of a step have about 1,160 bytes times its square."""
    distributed: DistributedConfig = field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        file_name("network", self.network)
        file_name("run_name", self.run_name)
        if self.max_bytes is not None:
            at_least("max_bytes", self.max_bytes, SMALLEST_BYTES)
        at_least("rounds", self.rounds, 1)
        at_least("image_steps", self.image_steps, 0)
        at_least("image_batch_size", self.image_batch_size, 1)
        at_least("image_width", self.image_width, 1)

    @property
    def logs(self) -> Path:
        """Where the event logs go."""
        return self.log_dir or self.output_dir / self.run_name / "logs"


def parse(arguments: Sequence[str] | None = None) -> NetworkBenchmarkConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(NetworkBenchmarkConfig, "trainer.network_benchmark", arguments)
