"""Reports a pod's hardware: `python3 -m trainer.helpers.hardware --busy_seconds 60` prints one JSON line.

It gives figures that a job can only guess from its errors: driver and CUDA, the GPUs and their speed, limits of the
process, /dev/shm, RDMA devices, interfaces. It needs no GPU; missing values are null or an empty list.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import resource
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.common.validation import at_least
from trainer.training.nvidia_driver import driver_version

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = "hardware"
"""The one key of the line; its value is the report."""
_MATRIX = 8192
_SMI_SECONDS = 60
_SMI_FIELDS = "name,driver_version,memory.total,mig.mode.current,pci.bus_id"


@dataclass(frozen=True, kw_only=True)
class HardwareConfig:
    """Report what this pod sees of its machine, as one JSON line."""

    busy_seconds: float = 0.0
    """How long each GPU multiplies matrices; 0 does not."""

    def __post_init__(self) -> None:
        at_least("busy_seconds", self.busy_seconds, 0)


def hardware(busy_seconds: float = 0.0) -> dict[str, Any]:
    """Return this process's view of its machine.

    Args:
        busy_seconds: how long each GPU multiplies matrices, for a figure and for the person who watches it.
    """
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": {"machine": os.cpu_count(), "allowed": len(os.sched_getaffinity(0))},
        "limits": {
            "memlock_bytes": _limit(resource.RLIMIT_MEMLOCK),
            "open_files": _limit(resource.RLIMIT_NOFILE),
        },
        "shared_memory_bytes": _size(Path("/dev/shm")),  # noqa: S108 - a mount
        "driver": driver_version(),
        "nvidia_smi": _nvidia_smi(),
        "nvidia_visible_devices": os.environ.get("NVIDIA_VISIBLE_DEVICES"),
        "rdma_devices": _names(Path("/sys/class/infiniband")),
        "rdma_files": _names(Path("/dev/infiniband")),
        "interfaces": {name: _mtu(name) for name in _names(Path("/sys/class/net"))},
        "torch": _torch(busy_seconds),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report."""
    # The acceptance run asks `hardware` on a machine that has none of the images' packages.
    from trainer.common import command_line  # noqa: PLC0415

    config = command_line.parse(HardwareConfig, "trainer.helpers.hardware", arguments)
    print(json.dumps({KEY: hardware(config.busy_seconds)}, sort_keys=True), flush=True)


def _limit(kind: int) -> int | None:
    """Return the soft limit of this process; None: there is none."""
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


def _size(mount: Path) -> int | None:
    try:
        file_system = os.statvfs(mount)
    except OSError:
        return None
    return file_system.f_frsize * file_system.f_blocks


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return []


def _mtu(interface: str) -> int | None:
    try:
        return int(Path("/sys/class/net", interface, "mtu").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _nvidia_smi() -> list[str] | str:
    """Return a line per GPU, or why there is none."""
    command = ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SMI_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stdout + done.stderr).strip()
    return done.stdout.strip().splitlines()


def _torch(busy_seconds: float) -> dict[str, Any] | None:
    try:
        # Not imported above: what has no torch still has a machine to report.
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    report: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "architectures": torch.cuda.get_arch_list(),
        "available": torch.cuda.is_available(),
        "gpus": [],
    }
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return {**report, "error": str(error)}
    report["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    report["gpus"] = [_gpu(torch, index, busy_seconds) for index in range(torch.cuda.device_count())]
    return report


def _gpu(torch: Any, index: int, busy_seconds: float) -> dict[str, Any]:  # noqa: ANN401 - a module imported late
    facts = torch.cuda.get_device_properties(index)
    return {
        "name": facts.name,
        "memory_bytes": facts.total_memory,
        "capability": f"{facts.major}.{facts.minor}",
        "teraflops_bfloat16": _teraflops(torch, index, busy_seconds) if busy_seconds else None,
    }


def _teraflops(torch: Any, index: int, seconds: float) -> float:  # noqa: ANN401 - as above
    """Return how many 10^12 floating-point operations a second a GPU does: 2 n^3 for each product of n x n matrices."""
    factors = torch.randn(2, _MATRIX, _MATRIX, device=f"cuda:{index}", dtype=torch.bfloat16)
    done, begin = 0, time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        torch.matmul(factors[0], factors[1])
        torch.cuda.synchronize(index)
        done += 1
    return round(2 * _MATRIX**3 * done / passed / 1e12, 1)


if __name__ == "__main__":
    main()
