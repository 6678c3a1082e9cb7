"""What the init container of a job from a local folder runs: it joins the parts, proves them and unpacks them.

`workloads/local_folder.py` sends this text along, so that the platform's image may be of any release. Arguments: the
folder with the parts, the SHA-256 of all of them, the folder to create.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import tarfile
from pathlib import Path


def unpack(parts: Path, digest: str, destination: Path) -> int:
    """Write the files; return their number.

    Raises:
        SystemExit: the parts are not those that the job was declared with.
    """
    content = b"".join(part.read_bytes() for part in sorted(parts.glob("part-*")))
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        sys.exit(f"the code in {parts} has the SHA-256 {actual}, not {digest}: somebody changed or deleted a ConfigMap")
    # A container that starts again must not find half of the files, or those of another attempt.
    shutil.rmtree(destination, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4, and from 3.12 on with a warning if not chosen
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(destination)  # noqa: S202 - its digest is the declared one
        return len(archive.getnames())


if __name__ == "__main__":
    written = unpack(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    print(f"{written} files of {sys.argv[2][:12]} are in {sys.argv[3]}")
