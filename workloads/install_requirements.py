"""What installs a job's Python packages, once for all of its pods, into a folder of the volume that later jobs find.

`workloads/volcano_job.py` sends this text along, so that it works in any image that has Python and pip. Arguments: the
file of requirements, the folder of all packages, the link by which this pod finds its own, and the number of this pod,
of which 0 installs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

PATIENCE_SECONDS = 1800
POLL_SECONDS = 1
KEPT_SECONDS = 60 * 24 * 3600
"""Since a job last began to use a folder: longer than a job runs without a restart."""
_FURTHER_FILE = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+)?(\S+)")
_CODE = re.compile(r"(?:(?:-e|--editable)(?:\s*=\s*|\s+))?(?:\.{1,2}(?:/.*)?(?:\[.*)?|file:.*)(?<!\.whl|\.zip|r\.gz)")
"""A line that installs a folder, and no package that is built already."""


def files_of(file: Path) -> list[Path]:
    """Return a file of requirements, and those that it includes, each once (pip, "Requirements File Format").

    Raises:
        ValueError: one is not there, or a line installs a folder of the job's code, which others would then use.
    """
    files: list[Path] = []
    waiting = [file]
    while waiting:
        each = waiting.pop()
        if each in files:
            continue
        if not each.is_file():
            raise ValueError(f"{each}: is not there")
        files.append(each)
        text = each.read_text(encoding="utf-8-sig", errors="replace").replace("\\\n", " ")
        for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()):
            if _CODE.fullmatch(line):
                raise ValueError(
                    f"{each}: {line!r} installs the job's own code, which other jobs would then use. Fix: omit it;"
                    " code in src is found with PYTHONPATH=/source/code/src"
                )
            further = _FURTHER_FILE.fullmatch(line)
            if further and "://" not in further[1]:
                waiting.append(Path(os.path.normpath(each.parent / further[1])))
    return files


def key_of(requirements: bytes) -> str:
    """Return the name of the folder: other requirements, another image, Python or index have another."""
    present = sorted(f"{each.name}=={each.version}" for each in distributions())
    machine = [platform.python_version(), platform.machine(), os.environ.get("PIP_INDEX_URL", "")]
    text = "\n".join([requirements.decode(errors="replace"), *machine, *present])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prune(folder: Path) -> None:
    """Delete the packages that no job has begun to use for a long time, and what killed pods left."""
    for each in folder.iterdir():
        with suppress(OSError):  # another pod does the same
            if time.time() - each.stat().st_mtime < KEPT_SECONDS:
                continue
            if not each.is_dir():
                each.unlink()
                continue
            leaving = each.with_name(f".leaving-{each.name}-{platform.node()}")
            each.rename(leaving)
            if time.time() - leaving.stat().st_mtime < KEPT_SECONDS:  # a job has begun to use it meanwhile
                leaving.rename(each)
            else:
                shutil.rmtree(leaving, ignore_errors=True)


def install(file: Path, packages: Path, failed: Path) -> None:
    """Install what the image lacks of a file of requirements, for others to find only when all of it is there."""
    failed.unlink(missing_ok=True)
    unfinished = packages.with_name(f".{packages.name}-{platform.node()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--user", "--disable-pip-version-check", "--no-warn-script-location"]
    done = subprocess.run(
        [*pip, "--requirement", file], env={**os.environ, "PYTHONUSERBASE": str(unfinished)}, check=False
    )
    if done.returncode:
        failed.touch()
        sys.exit(done.returncode)
    installed = next(unfinished.glob("lib/python*/site-packages"), None)
    if installed is None:  # the image has all of it
        (unfinished / "site-packages").mkdir()
    else:
        (unfinished / "site-packages").symlink_to(installed.relative_to(unfinished))
    try:
        unfinished.rename(packages)
    except OSError:  # another job was quicker
        if not packages.is_dir():
            raise
        shutil.rmtree(unfinished)


def wait(packages: Path, failed: Path) -> None:
    """Wait until another pod has installed them."""
    begin = time.time()
    while not packages.is_dir():
        if failed.exists() and failed.stat().st_mtime >= begin - POLL_SECONDS:
            sys.exit("the first pod could not install the packages: its log says why")
        if time.time() - begin > PATIENCE_SECONDS:
            sys.exit(f"the first pod has not installed the packages within {PATIENCE_SECONDS} s")
        time.sleep(POLL_SECONDS)


def main(file: Path, folder: Path, link: Path, number: str) -> None:
    """Install the packages or wait for them, and link them."""
    if not file.is_file():
        sys.exit(f"{file}: is not in {Path.cwd()}, the code of the job")
    try:
        packages = folder / key_of(b"\n".join(each.read_bytes() for each in files_of(file)))
    except ValueError as refusal:
        sys.exit(str(refusal))
    failed = folder / f"{packages.name}.failed-{os.environ['ATHANOR_JOB']}"
    if packages.is_dir():
        with suppress(OSError):  # of another user
            os.utime(packages)
        print(f"packages of {file}: found in {packages}")
    elif number == "0":
        print(f"packages of {file}: not in {folder} yet, installing", flush=True)
        install(file, packages, failed)
        prune(folder)
    else:
        wait(packages, failed)
    link.unlink(missing_ok=True)
    link.symlink_to(packages)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
