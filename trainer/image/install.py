"""Installs what the image lacks of its framework's pins and of ssh. What the base image already has, it keeps.

Usage, in the image being built: python3 -m trainer.image.install --framework pytorch --variant cpu REQUIREMENTS_FOLDER
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

from trainer.image.variant import CPU, GPU, PYTORCH, REQUIREMENTS, TENSORFLOW, requirements_for, write_stand_ins

CHECKED_IMPORTS = {
    PYTORCH: "import torch, sklearn, grpc, uvloop, mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI",
    TENSORFLOW: "import tensorflow, sklearn",
}
"""Modules with native code, which stand for all others. MPI is not started: that would look for a network."""

SSH_PROGRAMS = {"ssh": "openssh-client", "sshd": "openssh-server"}
"""What MPI starts its ranks with and code is cloned with, and the Debian package of each."""

LINKER_FILE = Path("/etc/ld.so.conf.d/zz-openmpi.conf")
"""Sorted last, so that a base image's own libraries of the same names stay the first that its programs find."""


def missing(pins: list[str]) -> list[str]:
    """Return the pins ("name==version") that this interpreter does not have in exactly that version."""
    return [pin for pin in pins if not _is_installed(*pin.split("==", maxsplit=1))]


def main(arguments: list[str]) -> None:
    """Install the missing packages without their dependencies: the pins name those too."""
    parser = argparse.ArgumentParser(prog="trainer.image.install")
    parser.add_argument("--framework", choices=tuple(REQUIREMENTS), required=True)
    parser.add_argument("--variant", choices=(CPU, GPU), required=True)
    parser.add_argument("requirements_folder", type=Path)
    options = parser.parse_args(arguments)
    requirements: Path = options.requirements_folder / REQUIREMENTS[options.framework]
    wanted = missing(requirements_for(options.variant, requirements.read_text().splitlines()))
    if wanted:
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--root-user-action=ignore"]
        subprocess.run([*pip, *wanted], check=True)
    install_ssh()
    if options.framework == PYTORCH:
        register_mpi_libraries(LINKER_FILE)
        if options.variant == CPU:
            write_stand_ins(_site_packages())
    # A library that is missing must fail this build, not the first pod.
    subprocess.run([sys.executable, "-c", CHECKED_IMPORTS[options.framework]], check=True)


def install_ssh() -> None:
    """Install the Debian packages of ssh programs that are not there, without their host keys: all pods would share."""
    packages = [package for program, package in SSH_PROGRAMS.items() if shutil.which(program) is None]
    if packages:
        subprocess.run(["apt-get", "update"], check=True)
        subprocess.run(["apt-get", "install", "--yes", "--no-install-recommends", *packages], check=True)
        shutil.rmtree("/var/lib/apt/lists", ignore_errors=True)
    for key in Path("/etc/ssh").glob("ssh_host_*"):
        key.unlink()


def register_mpi_libraries(linker_file: Path) -> None:
    """Let the loader find Open MPI's libraries without LD_LIBRARY_PATH, which a rank that is started over ssh lacks.

    They lie beside the packages (lib/ and lib/openmpi/ of the prefix), where no program but mpirun looks by itself.
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
