"""`make lock`: pins every requirement of the `*.in` files in `*.txt`, with all dependencies and hashes.

A package is installed only from a file whose SHA-256 is pinned, whatever server it comes from. If an index has builds
of its own (torch 2.15.0+cpu), those are pinned.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.paths import REPOSITORY, paths
from tools.process import run

_COMPILE = (
    "pip", "compile", "--python-version=3.11", "--generate-hashes", "--no-emit-index-url", "--no-annotate",
    "--no-header", "--quiet",
)  # fmt: skip
_OF_THE_INSTALLATION = ("tools/installer", "tools/build")
_POLICIES = "policies/requirements"
_TESTS = "requirements-test"
_LEFT_OUT = {"trainer/requirements": ("--no-emit-package", "pillow")}
"""torchvision names it, and services take only its operators, which do not need it: trainer/requirements-training."""


def main() -> None:
    """Compile all files; pins follow those of the tests, so that what is tested is what runs.

    Apart from those of the policy pack, whose SDK needs an older protobuf than the rest.
    """
    uv = Path(sys.executable).parent / "uv"
    env = {"UV_CACHE_DIR": str(paths().cache / "uv")}
    for name in (*_OF_THE_INSTALLATION, _POLICIES, _TESTS):
        run([uv, *_COMPILE, f"{name}.in", "-o", f"{name}.txt"], cwd=REPOSITORY, env=env)
    for name in ("requirements", *(f"trainer/requirements{suffix}" for suffix in ("", "-training", "-tensorflow"))):
        files = [f"{name}.in", "-c", f"{_TESTS}.txt", "-o", f"{name}.txt", *_LEFT_OUT.get(name, ())]
        run([uv, *_COMPILE, *files], cwd=REPOSITORY, env=env)


if __name__ == "__main__":
    main()
