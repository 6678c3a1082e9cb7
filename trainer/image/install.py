"""Installs what the image lacks of trainer/requirements.txt. A base image that already has a pinned package keeps it.

Usage, in the image being built: python3 -m trainer.image.install --variant cpu|gpu REQUIREMENTS_FILE
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
from pathlib import Path

from trainer.image.variant import CPU, GPU, requirements_for, write_stand_ins

CHECKED_IMPORTS = ("torch", "sklearn", "grpc", "uvloop")
"""Modules with native code, which stand for all others."""


def missing(pins: list[str]) -> list[str]:
    """Return the pins ("name==version") that this interpreter does not have in exactly that version."""
    return [pin for pin in pins if not _is_installed(*pin.split("==", maxsplit=1))]


def main(arguments: list[str]) -> None:
    """Install the missing packages without their dependencies: the pins name those too."""
    parser = argparse.ArgumentParser(prog="trainer.image.install")
    parser.add_argument("--variant", choices=(CPU, GPU), required=True)
    parser.add_argument("requirements", type=Path)
    options = parser.parse_args(arguments)
    pins = requirements_for(options.variant, options.requirements.read_text().splitlines())
    wanted = missing(pins)
    if wanted:
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--root-user-action=ignore"]
        subprocess.run([*pip, *wanted], check=True)
    if options.variant == CPU:
        write_stand_ins(_site_packages())
    # A library that is missing must fail this build, not the first pod.
    subprocess.run([sys.executable, "-c", f"import {', '.join(CHECKED_IMPORTS)}"], check=True)


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
