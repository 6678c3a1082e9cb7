"""The version of NVIDIA's driver on the node. Needs no torch."""

from __future__ import annotations

import re
from pathlib import Path

KERNEL_MODULE = Path("/proc/driver/nvidia/version")
"""What NVIDIA's kernel module reports of itself; pods see the node's, whatever GPUs they were given."""
_VERSION = re.compile(r"\b[0-9]{3}(?:\.[0-9]+){1,2}\b")


def driver_version() -> str | None:
    """Return the version of the node's NVIDIA driver, such as 580.126.09; None where there is none."""
    try:
        match = _VERSION.search(KERNEL_MODULE.read_text(encoding="utf-8"))
    except OSError:
        return None
    return match.group() if match else None
