"""Installs missing packages of a framework's pins, ssh, what shells use and RDMA. Packages of the base image are kept.

Usage, in the image being built: python3 -m trainer.image.install --framework pytorch --variant cpu REQUIREMENTS_FOLDER
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from trainer.image.variant import (
    CPU,
    GPU,
    PYTORCH,
    REQUIREMENTS,
    TENSORFLOW,
    TRAINING_REQUIREMENTS,
    requirements_for,
    write_stand_ins,
)

CHECKED_IMPORTS = {
    PYTORCH: "import torch, sklearn, grpc, uvloop, mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI",
    TENSORFLOW: "import tensorflow, sklearn, pip",
}
"""Modules with native code, which stand for all others. MPI is not started: that would look for a network."""
CHECKED_TRAINING_IMPORTS = "import PIL.Image, pip, tqdm, yaml"
"""The same of the packages that only training has."""

SSH_PROGRAMS = {"ssh": "openssh-client", "sshd": "openssh-server"}
"""Programs with which MPI starts its ranks and code is cloned, and the Debian package of each."""
SHELL_PROGRAMS = {
    "ps": "procps", "awk": "mawk", "hostname": "hostname",
    "gzip": "gzip", "bzip2": "bzip2", "xz": "xz-utils", "unzip": "unzip",
}  # fmt: skip
"""Programs that preparations of a job use (debian.py has more, which no base lacks), and the Debian package of each."""
GPU_PROGRAMS = {"numactl": "numactl", "ibv_devinfo": "ibverbs-utils"}
"""Programs with which torchrun binds ranks to cores, and that show the RDMA devices of a pod; the Debian package of
each."""
RDMA_LIBRARIES = {
    "libibverbs.so.1": "libibverbs1",
    "libibverbs/libmlx5-rdmav*.so": "ibverbs-providers",
    "libibverbs/liberdma-rdmav*.so": "ibverbs-providers",
    "librdmacm.so.1": "librdmacm1",
}
"""Libraries through which NCCL reaches RDMA devices, by their names in a library folder, and the Debian package of
each."""
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_FIX = (
    "take a base with rdma-core 43.0 or newer (Debian 12, Ubuntu 24.04), or install Alibaba Cloud's own packages there"
)

LINKER_FILE = Path("/etc/ld.so.conf.d/zz-openmpi.conf")
"""Sorted last, so that a base image's own libraries of the same names stay the first that its programs find."""


def missing(pins: list[str]) -> list[str]:
    """Return the pins ("name==version --hash=…") that this interpreter does not have in exactly that version."""
    return [pin for pin in pins if not _is_installed(*pin.split()[0].split("==", maxsplit=1))]


def main(arguments: list[str]) -> None:
    """Install the missing packages, by their hashes and without their dependencies: the pins name those too."""
    parser = argparse.ArgumentParser(prog="trainer.image.install")
    parser.add_argument("--framework", choices=tuple(REQUIREMENTS), required=True)
    parser.add_argument("--variant", choices=(CPU, GPU), required=True)
    parser.add_argument("requirements_folder", type=Path)
    options = parser.parse_args(arguments)
    files = requirements_files(options.requirements_folder, options.framework)
    lines = [line for file in files for line in file.read_text().splitlines()]
    pins = missing(requirements_for(options.variant, lines))
    if pins:
        install(pins)
    install_system_packages(options.variant)
    if options.framework == PYTORCH:
        register_mpi_libraries(LINKER_FILE)
        if options.variant == CPU:
            write_stand_ins(_site_packages())
    # A library that is missing must fail this build, not the first pod.
    imports = [CHECKED_IMPORTS[options.framework], *([CHECKED_TRAINING_IMPORTS] if len(files) > 1 else [])]
    subprocess.run([sys.executable, "-c", "\n".join(imports)], check=True)


def requirements_files(folder: Path, framework: str) -> list[Path]:
    """Return the files of pins that the image has: the framework's, and those of training if it is the image for it."""
    names = [REQUIREMENTS[framework]]
    if framework in TRAINING_REQUIREMENTS:
        names.append(TRAINING_REQUIREMENTS[framework])
    return [folder / name for name in names if (folder / name).is_file()]


def install(pins: list[str]) -> None:
    """Install packages whose files have one of the hashes that their pins name: this is done as root."""
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--root-user-action=ignore"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        subprocess.run([*pip, "--requirement", file.name], check=True)


def install_system_packages(variant: str) -> None:
    """Install the Debian packages of what is not there, without ssh's host keys: all pods would share them.

    Raises:
        FileNotFoundError: the base image's distribution has no RDMA library that the GPU variant needs.
    """
    programs = SSH_PROGRAMS | SHELL_PROGRAMS | (GPU_PROGRAMS if variant == GPU else {})
    packages = {package for program, package in programs.items() if shutil.which(program) is None}
    if variant == GPU:
        packages |= {RDMA_LIBRARIES[library] for library in _missing_libraries()}
    if packages:
        subprocess.run(["apt-get", "update"], check=True)
        subprocess.run(["apt-get", "install", "--yes", "--no-install-recommends", *sorted(packages)], check=True)
        shutil.rmtree("/var/lib/apt/lists", ignore_errors=True)
    if variant == GPU and (missing_libraries := _missing_libraries()):
        # NCCL would fall back to TCP and say nothing: this must fail the build, not slow down the first job.
        raise FileNotFoundError(f"{', '.join(missing_libraries)}: not in this base image's packages. Fix: {_FIX}")
    for key in Path("/etc/ssh").glob("ssh_host_*"):
        key.unlink()


def _missing_libraries() -> list[str]:
    return [name for name in RDMA_LIBRARIES if not any(any(Path(folder).glob(name)) for folder in LIBRARY_FOLDERS)]


def register_mpi_libraries(linker_file: Path) -> None:
    """Let the loader find Open MPI's libraries without LD_LIBRARY_PATH, which a rank that is started over ssh lacks.

    They are next to the packages (lib/ and lib/openmpi/ of the prefix), where no program but mpirun looks by itself.
    """
    files = importlib.metadata.distribution("openmpi").files or []
    libraries = [Path(str(file.locate())).resolve() for file in files if file.name.startswith(("libmpi.", "libprrte."))]
    linker_file.write_text("".join(f"{folder}\n" for folder in sorted({library.parent for library in libraries})))
    subprocess.run(["ldconfig"], check=True)


def _is_installed(name: str, version: str) -> bool:
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def _site_packages() -> Path:
    torch = importlib.metadata.distribution("torch")
    return Path(str(torch.locate_file("torch"))).parent


if __name__ == "__main__":
    main(sys.argv[1:])
