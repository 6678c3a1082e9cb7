"""The table of CUDA releases, NVIDIA drivers and GPUs that work together.

Drivers: NVIDIA, "CUDA Compatibility", minor version compatibility, table 1. Within a major release an image runs from
that driver on, whatever its minor release; a newer driver runs every older CUDA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import StringConstraints

from infra.errors import choices

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_DRIVERS: Mapping[int, int] = {11: 450, 12: 525, 13: 580}
"""Oldest branch of the driver by major version of CUDA."""
CudaVersion = Annotated[str, StringConstraints(pattern=r"^1[1-3]\.[0-9]{1,2}$")]
"""Major and minor version, such as 13.2."""


@dataclass(frozen=True, kw_only=True)
class ImageCuda:
    """The CUDA that an image holds."""

    version: str
    """Major and minor version, such as 13.2."""
    kernels: tuple[str, ...] = ()
    """Compute capabilities that its framework was compiled for, such as 8.0; empty where they are not known."""

    @property
    def least_driver(self) -> int:
        """The oldest branch of NVIDIA's driver that it runs with."""
        return LEAST_DRIVERS[int(self.version.split(".")[0])]

    def runs_with_driver(self, driver_version: str) -> bool:
        """Return whether it runs with a driver, such as 580.126.09."""
        return int(driver_version.split(".", maxsplit=1)[0]) >= self.least_driver

    def runs_on(self, compute_capability: str) -> bool:
        """Return whether it has kernels for GPUs of a compute capability, such as 8.9.

        A kernel runs on GPUs of its own major version and of the same or a higher minor one (NVIDIA, "CUDA Programming
        Guide", binary compatibility).
        """
        major, minor = _pair(compute_capability)
        compiled = [_pair(kernel) for kernel in self.kernels]
        return not compiled or any(own == major and at_least <= minor for own, at_least in compiled)


PYTORCH_IMAGE_CUDA = ImageCuda(version="13.2", kernels=("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"))
"""That of the wheel torch 2.15.0+cu132 in trainer/requirements.txt: `torch.version.cuda` and its list of
architectures."""
TENSORFLOW_IMAGE_CUDA = ImageCuda(version="12.9")
"""That of the libraries in trainer/requirements-tensorflow.txt. Its list of architectures is in no file of the
wheel."""
TRITON_IMAGE_CUDA = ImageCuda(version="13.4")
"""That of the release in infra/versions.py: NVIDIA, "Frameworks Support Matrix", which does not say for which GPUs its
torch has kernels."""

ACK_DRIVERS = (
    "580.126.09",
    "570.195.03",
    "570.169",
    "570.133.20",
    "550.163.01",
    "550.144.03",
    "550.90.07",
    "535.230.02",
    "535.161.07",
)
"""Drivers that ACK installs on nodes of Kubernetes 1.28 and newer by the label ack.aliyun.com/nvidia-driver-version.

Source: ACK, "NVIDIA driver versions supported by ACK". For a version that it does not list, ACK silently installs its
default, 535.161.07. The copy of the page that could be read ends at 570.195.03; 580.126.09 is the version that Alibaba
Cloud's own solution aliyun-computenest/quickstart-robot-solution pins by that label (2026-07), and it reports having
checked the driver on nodes with A10.
"""
DEFAULT_DRIVER = ACK_DRIVERS[0]
"""Driver of nodes whose settings name no version: ACK changes its own default from time to time."""
_DRIVER = re.compile(r"[0-9]{3}(\.[0-9]{1,3}){1,2}")


def check_driver(version: str) -> str:
    """Return a driver version that ACK installs.

    Raises:
        ValueError: it has none of that name, and would install its default instead.
    """
    if not _DRIVER.fullmatch(version):
        raise ValueError(f"is not a valid NVIDIA driver version. Fix: write it as {DEFAULT_DRIVER}")
    if version not in ACK_DRIVERS:
        raise ValueError(
            "is not in ACK's list of drivers, and ACK would silently install an older default instead. Fix:"
            f" {choices(version, ACK_DRIVERS)}"
        )
    return version


def at_least_capability(compute_capability: str, least: str) -> bool:
    """Return whether a compute capability, such as 8.9, is the given one or newer."""
    return _pair(compute_capability) >= _pair(least)


def _pair(compute_capability: str) -> tuple[int, int]:
    major, minor = compute_capability.split(".")
    return int(major), int(minor)
