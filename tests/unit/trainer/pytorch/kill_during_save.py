"""Kill a process at every file operation of a checkpoint save, and look at what a restart finds.

Prints one JSON object per kill: the operation at which the process died, the step found afterwards, and whether the
tensor loaded from it is the one saved at that step. Run in a process of its own: it forks before torch computes.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import traceback
from pathlib import Path

import torch

from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.manager import CheckpointManager
from trainer.pytorch.distributed import Distributed, DistributedConfig

OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
RELATIVE = {"os.remove", "os.rmdir"}
KILLED = -signal.SIGKILL


def manager(folder: Path) -> CheckpointManager:
    distributed = Distributed(DistributedConfig())
    return CheckpointManager(CheckpointConfig(keep_latest_k=1), folder, distributed, settings={})


def save_and_die(folder: Path, operation: int, report: Path) -> None:
    """Save step 1 in peace, then step 2, and die before the given file operation of it."""
    checkpoints = manager(folder)
    checkpoints.save(1, {"x": torch.full((8,), 1.0)})
    seen = itertools.count()
    own = str(folder)

    def on_operation(event: str, arguments: tuple) -> None:
        if event not in OPERATIONS:
            return
        # removing a tree names its files relative to an open folder
        ours = str(arguments[0]).startswith(own) or (event in RELATIVE and arguments[1] != -1)
        if ours and next(seen) == operation:
            report.write_text(event)
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_operation)
    checkpoints.save(2, {"x": torch.full((8,), 2.0)})


def find_and_load(folder: Path, report: Path) -> None:
    checkpoints = manager(folder)
    latest = checkpoints.find_latest()
    state = {"x": torch.zeros(8)}
    checkpoints.load(latest, state)
    whole = torch.equal(state["x"], torch.full((8,), float(latest.step)))
    hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    report.write_text(json.dumps({"step": latest.step, "whole": whole, "leftovers": hidden}))


def in_child(work, *arguments) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except Exception:  # noqa: BLE001  any failure reaches the parent as the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(base: Path) -> None:
    for operation in itertools.count():
        folder, died_at, report = base / str(operation), base / "died_at", base / "report"
        folder.mkdir()
        status = in_child(save_and_die, folder, operation, died_at)
        if status not in (0, KILLED):
            sys.exit(f"saving ended with status {status}")
        if in_child(find_and_load, folder, report):
            sys.exit(f"nothing to resume from after a kill at operation {operation}: {list(folder.iterdir())}")
        if status == 0:
            return
        print(json.dumps({"operation": died_at.read_text(), **json.loads(report.read_text())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
