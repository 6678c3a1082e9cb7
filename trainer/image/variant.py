"""Packages of an image by framework and variant, and stand-ins for the libraries that CPU variants leave out.

PyTorch's CUDA build is linked against NVIDIA's libraries, so that it does not even import without them, though nothing
in them runs on a machine without a GPU. They and triton are four fifths of what `pip install torch` brings (4.1 of
5.2 GB for torch 2.15.0). The variant has small stand-ins in their place, whose every function reports failure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from trainer.image.elf import Library, Reference, read_library, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CPU, GPU = "cpu", "gpu"

PYTORCH, TENSORFLOW = "pytorch", "tensorflow"
REQUIREMENTS = {PYTORCH: "requirements.txt", TENSORFLOW: "requirements-tensorflow.txt"}
"""The file of pinned packages by framework."""

TRAINING_REQUIREMENTS = {PYTORCH: "requirements-training.txt"}
"""The file of the packages that only training has, on top of those of its framework: images of services lack it."""

ONLY_IN = {"tensorflow": GPU, "tensorflow-cpu": CPU}
"""The same module twice: without code for GPUs it is half as large. The pins name both, for both have hashes."""

KEPT_ON_CPU = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")
"""Small libraries that torch calls on any machine: to count the devices (none), and from its profiler."""

GPU_ONLY = re.compile(r"(nvidia|cuda)-|triton$")
"""Names of packages that only a GPU has a use for."""

UNVERSIONED_PREFIXES = {"libcufile.so.0": "cuFile", "libcusparseLt.so.0": "cusparseLt", "libnccl.so.2": "nccl"}
"""Prefixes of the names of a library's functions, where no symbol version shows whose they are."""

NVIDIA_LIBRARY = re.compile(r"lib(cu(?!da\.)|nccl|nv)")
"""Sonames of the libraries that get a stand-in. libcuda, the driver's, is only ever looked for at run time."""

EXPLANATION = "this is the CPU variant of the image: it holds no GPU libraries"

STAND_INS_FOLDER = PurePosixPath("nvidia/cu13/lib")
"""Folder in which torch's libraries look for the toolkit's (their run path), relative to site-packages."""


def requirements_for(variant: str, lines: Iterable[str]) -> list[str]:
    """Return the pinned requirements that `variant` ("cpu" or "gpu") installs, in their order, each with its hashes.

    Args:
        variant: Of the image.
        lines: Of a file of pins; a requirement may take several, which end with a backslash.

    Raises:
        ValueError: no such variant.
    """
    if variant not in (CPU, GPU):
        raise ValueError(f"variant {variant!r}: must be {CPU!r} or {GPU!r}")
    plain = [line.rstrip() for line in lines if not line.lstrip().startswith("#")]
    pins = [" ".join(pin.split()) for pin in "\n".join(plain).replace("\\\n", " ").split("\n") if pin.strip()]
    return [pin for pin in pins if _is_in(variant, _name(pin))]


def write_stand_ins(site_packages: Path) -> list[Path]:
    """Write a stand-in for every library that torch needs at import and that is not installed; return their paths."""
    installed = [read_library(path) for path in sorted((site_packages / "torch" / "lib").glob("*.so*"))]
    folder = site_packages / STAND_INS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    present = {path.name for path in site_packages.glob("nvidia/**/lib*.so*")}
    present |= {path.name for path in (site_packages / "torch" / "lib").iterdir()}
    written: list[Path] = []
    for soname, references in sorted(_references_by_library(installed).items()):
        if soname not in present:
            path = folder / soname
            path.write_bytes(stand_in(soname, installed[0].machine, references, EXPLANATION))
            written.append(path)
    return written


def _references_by_library(libraries: list[Library]) -> dict[str, set[Reference]]:
    """Return the symbols that the libraries take from each of NVIDIA's libraries that they are linked against."""
    taken: dict[str, set[Reference]] = defaultdict(set)
    for reference in set[Reference]().union(*(library.references for library in libraries)):
        taken[reference.soname or _owner(reference.name)].add(reference)
    needed = set[str]().union(*(library.needed for library in libraries))
    return {soname: taken[soname] for soname in needed if NVIDIA_LIBRARY.match(soname)}


def _owner(symbol: str) -> str:
    return next((soname for soname, prefix in UNVERSIONED_PREFIXES.items() if symbol.startswith(prefix)), "")


def _name(pin: str) -> str:
    return re.split(r"[=<>!~;\[ ]", pin, maxsplit=1)[0].lower().replace("_", "-")


def _is_in(variant: str, name: str) -> bool:
    needs_gpu = GPU_ONLY.match(name) is not None and name not in KEPT_ON_CPU
    return ONLY_IN.get(name, GPU if needs_gpu else variant) == variant
