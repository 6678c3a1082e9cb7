"""Pin every requirement: `*.in` says what is wanted, `*.txt` what that is, down to the last dependency."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.paths import REPOSITORY, paths
from tools.process import run

_COMPILE = ["pip", "compile", "--python-version=3.11", "--no-emit-index-url", "--no-annotate", "--no-header", "--quiet"]


def main() -> None:
    """Compile all files; the images' pins follow the program's, so that tests run what the pods run."""
    uv = Path(sys.executable).parent / "uv"
    env = {"UV_CACHE_DIR": str(paths().cache / "uv")}
    run([uv, *_COMPILE, "requirements.in", "-o", "requirements.txt"], cwd=REPOSITORY, env=env)
    for image in ("trainer/requirements", "trainer/requirements-tensorflow"):
        files = [f"{image}.in", "-c", "requirements.txt", "-o", f"{image}.txt"]
        run([uv, *_COMPILE, *files], cwd=REPOSITORY, env=env)


if __name__ == "__main__":
    main()
