"""Files as a tar stream on standard input or output: what `athanor copy` runs in a pod, sent along as text.

Only Python's standard library: the pod's image may be of any release. Arguments: `send PATH`, or `receive PATH REPLACE`
with REPLACE 0 or 1.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from typing import IO

_COPY = "copy"
_END = "end"
"""Name of the last entry: tarfile takes a stream that was cut between two files for a whole one."""


def send(path: Path, stream: IO[bytes]) -> None:
    """Write a file or a folder.

    Raises:
        SystemExit: it does not exist.
    """
    if not path.exists():
        sys.exit(f"{path} does not exist")
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.add(path, arcname=_COPY)
        archive.addfile(tarfile.TarInfo(_END))


def receive(path: Path, stream: IO[bytes], *, replace: bool) -> None:
    """Create a file or a folder from a stream: all of it under a name of its own first, then under its own at once.

    Raises:
        SystemExit: it exists, and may not be replaced; or the stream ended early.
        tarfile.ReadError: the stream ended early, or in the middle of a file.
    """
    if path.exists() and not replace:
        sys.exit(f"{path} exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            if hasattr(tarfile, "data_filter"):  # since Python 3.11.4: nothing is written outside the folder
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(partial)  # noqa: S202 - filtered
        if not (partial / _END).exists():
            sys.exit(f"{path} was not copied: the other side ended early")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        (partial / _COPY).replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(Path(sys.argv[2]), sys.stdout.buffer)
    else:
        receive(Path(sys.argv[2]), sys.stdin.buffer, replace=sys.argv[3] == "1")
