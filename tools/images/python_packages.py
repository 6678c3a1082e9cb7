"""Puts the trainer's pinned packages into the root file system of its base image."""

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
from trainer.image.variant import CPU, requirements_for, write_stand_ins

SITE_PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where Debian's Python looks for packages that are not Debian's."""
PROGRAMS = "usr/local/bin"

_NEVER_USED_ON_CPU = ("torch/include", "nvidia/cu13/include", "numpy/_core/include")
"""Headers: nothing is compiled in the pods of the CPU variant."""


def requirements_file() -> Path:
    """Return the file of the pinned packages."""
    return REPOSITORY / "trainer" / "requirements.txt"


def install(root: Path, variant: str) -> None:
    """Install the packages of `variant` into `root`, from the same download cache as this machine's environment.

    Raises:
        CommandError: a package cannot be had.
        ImageError: uv is missing.
    """
    site_packages = root / SITE_PACKAGES
    site_packages.mkdir(parents=True)
    pins = requirements_for(variant, requirements_file().read_text(encoding="utf-8").splitlines())
    glibc = "_".join(str(part) for part in GLIBC)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("\n".join(pins))
        wanted.flush()
        target = ["--target", site_packages, "--python", sys.executable, "--python-version", PYTHON]
        target += ["--python-platform", f"{platform.machine()}-manylinux_{glibc}", "--only-binary", ":all:"]
        run(
            [_uv(), "pip", "install", "--quiet", "--no-deps", *target, "--requirement", wanted.name],
            env={"UV_CACHE_DIR": str(paths().cache / "uv")},
            log=paths().logs / "images.log",
        )
    write_console_scripts(site_packages, root / PROGRAMS)
    remove_tests(site_packages)
    if variant == CPU:
        for folder in _NEVER_USED_ON_CPU:
            shutil.rmtree(site_packages / folder, ignore_errors=True)
        write_stand_ins(site_packages)


def write_console_scripts(site_packages: Path, programs: Path) -> None:
    """Write the programs that the packages declare (torchrun, uvicorn …), for the interpreter of the image.

    The installer wrote them for the interpreter that it ran with. Format: entry points specification of PyPA.
    """
    shutil.rmtree(site_packages / "bin", ignore_errors=True)
    programs.mkdir(parents=True, exist_ok=True)
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
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise ImageError(f"uv is missing: it is neither {beside} nor on PATH. Fix: pip install uv")
    return found
