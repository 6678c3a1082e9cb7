"""NVIDIA's driver on the node, and whether it shows GPUs to this process. Needs no torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

KERNEL_MODULE = Path("/proc/driver/nvidia/version")
"""NVIDIA's kernel module as a process sees it: pods see the node's, whatever GPUs they were given."""
DEVICES = Path("/dev")
"""Folder with a file for each GPU of a container, whole or shared; those of the node's other pods have none."""
_VERSION = re.compile(r"\b[0-9]{3}(?:\.[0-9]+){1,2}\b")


def driver_version() -> str | None:
    """Return the version of the node's NVIDIA driver, such as 580.126.09; None where there is none."""
    try:
        match = _VERSION.search(KERNEL_MODULE.read_text(encoding="utf-8"))
    except OSError:
        return None
    return match.group() if match else None


def shows_gpus() -> bool:
    """Return whether NVIDIA GPUs are visible here, usable or not: CUDA_VISIBLE_DEVICES may hide them all."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    # CUDA takes the numbers in front of the first that no GPU has, such as -1 (CUDA C++ Programming Guide)
    hidden = chosen is not None and (not chosen.strip() or chosen.strip().startswith("-"))
    return not hidden and any(DEVICES.glob("nvidia[0-9]*"))
