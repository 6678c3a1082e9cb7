"""Command line: `python -m trainer.serve --model_repository /data/output/models --model_name digits`."""

from __future__ import annotations

import os
import signal
import sys

from trainer.common import command_line
from trainer.common.cpu import threads_per_process
from trainer.serve.config import ServeConfig


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a drained stop, 1 when the server could not start."""
    # Importing torch takes seconds. A first process of a container ignores signals without a handler, so a stop
    # during the import would be lost and the pod killed at the end of its grace period.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    config = command_line.parse(ServeConfig, "trainer.serve", arguments)
    # Before torch is loaded, which sizes its pools by it; the instances of a model share it.
    os.environ["OMP_NUM_THREADS"] = str(config.num_cpu_threads or threads_per_process(1))
    # Before gRPC is loaded: its core prints a line for each frame of a client that it cannot parse.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

    from trainer.serve import lifecycle  # noqa: PLC0415  imports torch: after the steps above

    return lifecycle.run(config)


if __name__ == "__main__":
    sys.exit(main())
