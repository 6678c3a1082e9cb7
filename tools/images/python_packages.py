"""Installs the trainer's pinned packages into the root file system of its base image."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from tools.images.errors import ImageError
from tools.paths import REPOSITORY, paths
from tools.process import run
from trainer.image.debian import GLIBC, PYTHON
from trainer.image.variant import CPU, PYTORCH, REQUIREMENTS, requirements_for, write_stand_ins

PREFIX = "usr/local"
SITE_PACKAGES = f"{PREFIX}/lib/python{PYTHON}/dist-packages"
"""Folder in which Debian's Python looks for other packages than Debian's."""
PROGRAMS = f"{PREFIX}/bin"

_PINNED_ALONE = ("--no-deps", "--require-hashes")
_NEVER_USED_ON_CPU = (
    "torch/include",
    "nvidia/cu13/include",
    "numpy/_core/include",
    "tensorflow/include",
    "clang",
)
"""Headers and a compiler's library: nothing is compiled in the pods of the CPU variant."""


def requirements_file(framework: str) -> Path:
    """Return the file of the pinned packages of `framework` ("pytorch" or "tensorflow")."""
    return REPOSITORY / "trainer" / REQUIREMENTS[framework]


def install(root: Path, framework: str, variant: str) -> None:
    """Install the packages of a framework and variant into `root`, from this machine's download cache.

    Raises:
        CommandError: a package is not available, or is not the file that was pinned.
        ImageError: uv is missing.
    """
    site_packages = install_pins(root, requirements_file(framework), variant)
    if variant == CPU:
        for folder in _NEVER_USED_ON_CPU:
            shutil.rmtree(site_packages / folder, ignore_errors=True)
        if framework == PYTORCH:
            write_stand_ins(site_packages)


def install_pins(root: Path, requirements: Path, variant: str) -> Path:
    """Install the packages of one file of pins into `root`; return the folder that they are in.

    Raises:
        CommandError: a package is not available, or is not the file that was pinned.
        ImageError: uv is missing.
    """
    pins = requirements_for(variant, requirements.read_text(encoding="utf-8").splitlines())
    glibc = "_".join(str(part) for part in GLIBC)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        target = ["--prefix", root / PREFIX, "--python", sys.executable, "--python-version", PYTHON]
        target += ["--python-platform", f"{platform.machine()}-manylinux_{glibc}", "--only-binary", ":all:"]
        run(
            [_uv(), "pip", "install", "--quiet", *_PINNED_ALONE, *target, "--requirement", file.name],
            env={"UV_CACHE_DIR": str(paths().cache / "uv")},
            log=paths().logs / "images.log",
        )
    (root / PREFIX / ".lock").unlink(missing_ok=True)
    site_packages = move_packages(root)
    write_console_scripts(site_packages, root / PROGRAMS)
    remove_tests(site_packages)
    return site_packages


def move_packages(root: Path) -> Path:
    """Move the packages to where Debian's Python looks for them, from the folder that this machine's would be in.

    Returns:
        The folder that they are in now.
    """
    (installed,) = (root / PREFIX / "lib").glob("python*/site-packages")
    site_packages = root / SITE_PACKAGES
    # The image's own Python has made the folder of its version, and an empty one for packages in it.
    shutil.rmtree(site_packages, ignore_errors=True)
    site_packages.parent.mkdir(parents=True, exist_ok=True)
    installed.rename(site_packages)
    if not any(installed.parent.iterdir()):
        installed.parent.rmdir()
    return site_packages


def write_console_scripts(site_packages: Path, programs: Path) -> None:
    """Write the programs that the packages declare (torchrun, uvicorn …), for the interpreter of the image.

    The installer wrote them for the interpreter that it ran with; its scripts go, compiled programs (mpirun …) stay.
    Format: entry points specification of PyPA.
    """
    programs.mkdir(parents=True, exist_ok=True)
    for script in programs.iterdir():
        if script.read_bytes().startswith(b"#!"):
            script.unlink()
    for package in distributions(path=[str(site_packages)]):
        for program in package.entry_points.select(group="console_scripts"):
            root_attribute = program.attr.split(".")[0]
            lines = ["#!/usr/bin/python3", "import sys", f"from {program.module} import {root_attribute}"]
            script = programs / program.name
            script.write_text("\n".join([*lines, f"sys.exit({program.attr}())", ""]), encoding="utf-8")
            script.chmod(0o755)


def remove_tests(site_packages: Path) -> None:
    """Delete the packages' own test suites: a tenth of all files, imported by nothing."""
    for folder in sorted(site_packages.glob("**/tests"), reverse=True):
        if (folder / "__init__.py").is_file():
            shutil.rmtree(folder)


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.is_file() else shutil.which("uv")
    if program is None:
        raise ImageError(f"uv is missing: it is neither {beside} nor on PATH. Fix: run pip install uv")
    return program
