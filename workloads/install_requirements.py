"""What installs a job's Python packages, once for all of its pods, into a folder of the volume that later jobs find.

`workloads/volcano_job.py` sends this text along, so that it works in any image that has Python and pip. Arguments: the
file of requirements, the folder of all packages, and the link by which this pod finds its own.
"""

from __future__ import annotations

import codecs
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
LEFT_SECONDS = 120
"""Since the file of the pod that installs last changed: it is gone."""
_BEAT_SECONDS = 5
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""In the order in which they are looked for: that of UTF-32 begins with that of UTF-16."""
_OPTION = re.compile(
    r"""(?:^|\s)(?:-(?P<short>[rcfe])|--(?P<long>requirement|constraint|find-links|editable))
    (?:\s*=\s*|\s*)(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\s"']\S*))""",
    re.VERBOSE,
)
_REQUIREMENT = re.compile(r"(?:[\w.-]+(?:\[[^\]]*\])?\s*@\s*)?(?P<place>.*?)(?:\[[^\]/]*\])?(?:\s*;.*)?(?:\s--?\w.*)?")
_PACKAGE = (".whl", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def files_of(file: Path, folder: Path) -> list[Path]:
    """Return a file of requirements, and the files that it names, each once (pip, "Requirements File Format").

    Args:
        file: The file.
        folder: That pip starts in, to which paths of packages are relative.

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
        if not each.name.endswith(_PACKAGE):
            for line in _lines(each):
                waiting += _named(line, each, folder)
    return files


def _lines(file: Path) -> list[str]:
    """Return the lines of a file as pip reads them, without comments."""
    content = file.read_bytes()
    encoding = next((_BOMS[bom] for bom in _BOMS if content.startswith(bom)), "utf-8")
    text = re.sub(r"\\\r?\n", " ", content.decode(encoding, errors="replace"))
    return [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]


def _named(line: str, file: Path, folder: Path) -> list[Path]:
    """Return the files that a line of a file names."""
    named: list[Path] = []
    for option in _OPTION.finditer(line):
        value = option["double"] or option["single"] or option["plain"] or ""
        which = (option["short"] or option["long"])[0]
        if which == "e":
            named += _package(line, value, file, folder)
        elif "://" not in value:
            next_to_file = Path(os.path.normpath(file.parent / value))
            if which == "f":
                named += _packages_in(next_to_file if next_to_file.exists() else folder / value)
            else:
                named.append(next_to_file)
    return named if line.startswith("-") else [*named, *_package(line, line, file, folder)]


def _packages_in(place: Path) -> list[Path]:
    return sorted(each for each in place.glob("*") if each.name.endswith(_PACKAGE))


def _package(line: str, requirement: str, file: Path, folder: Path) -> list[Path]:
    """Return the file of a package that a requirement names by its path; none of other requirements.

    Raises:
        ValueError: it is a folder.
    """
    match = _REQUIREMENT.fullmatch(requirement)
    address = re.sub(r"^file:(?://(?:localhost)?(?=/|\$))?", "", match["place"].strip() if match else "")
    place = address.replace("${PWD}", str(folder))
    is_path = "/" in place or place.startswith(".") or place.endswith(_PACKAGE) or line != requirement
    if not place or "://" in place or not is_path:
        return []
    path = Path(os.path.normpath(folder / place))
    if path.is_dir() or not place.endswith(_PACKAGE):
        raise ValueError(
            f"{file}: {line!r} installs the job's own code, which other jobs would then use. Fix: omit it;"
            " code in src is found with PYTHONPATH=/source/code/src"
        )
    if place.startswith("/") and not path.exists():
        return []  # of the image or a volume, which pip knows
    return [path]


def key_of(files: list[Path]) -> str:
    """Return the name of the folder: other requirements, another image, Python or index have another."""
    present = sorted(f"{each.name}=={each.version}" for each in distributions())
    contents = [hashlib.sha256(each.read_bytes()).hexdigest() for each in files]
    machine = [platform.python_version(), platform.machine(), os.environ.get("PIP_INDEX_URL", "")]
    return hashlib.sha256("\n".join([*contents, *machine, *present]).encode()).hexdigest()[:16]


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


def install(file: Path, packages: Path, failed: Path, mark: Path) -> None:
    """Install what the image lacks of a file of requirements, for others to find only when all of it is there."""
    mark.write_text(platform.node(), encoding="utf-8")
    failed.unlink(missing_ok=True)
    unfinished = packages.with_name(f".{packages.name}-{platform.node()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--user", "--disable-pip-version-check", "--no-warn-script-location"]
    work = subprocess.Popen([*pip, "--requirement", file], env={**os.environ, "PYTHONUSERBASE": str(unfinished)})
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = work.wait(_BEAT_SECONDS)
            break
        os.utime(mark)
    if code:
        failed.touch()
        sys.exit(code)
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


def install_once(file: Path, packages: Path, failed: Path) -> None:
    """Install the packages, or wait for the pod that does: the first that comes, or comes after that one is gone."""
    before, begin = _changed(failed), time.monotonic()
    mark = packages.with_name(f"{packages.name}.installing")
    seen, since = 0.0, begin
    while not packages.is_dir():
        now, changed = time.monotonic(), _changed(mark)
        if changed != seen:
            seen, since = changed, now
        if now - since > LEFT_SECONDS or _text(mark) == platform.node():
            mark.unlink(missing_ok=True)
        if _changed(failed) not in {before, 0}:
            sys.exit("another pod could not install the packages: its log says why")
        if now - begin > PATIENCE_SECONDS:
            sys.exit(f"another pod has not installed the packages within {PATIENCE_SECONDS} s")
        with suppress(FileExistsError):
            mark.touch(exist_ok=False)
            break
        time.sleep(POLL_SECONDS)
    else:
        return
    print(f"packages of {file}: not in {packages.parent} yet, installing", flush=True)
    try:
        install(file, packages, failed, mark)
    finally:
        mark.unlink(missing_ok=True)
    prune(packages.parent)


def _changed(file: Path) -> float:
    """Return when a file was last changed, by the clock of its volume; 0 without it."""
    with suppress(OSError):
        return file.stat().st_mtime
    return 0


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8")
    return ""


def main(file: Path, folder: Path, link: Path) -> None:
    """Install the packages or wait for them, and link them."""
    if not file.is_file():
        sys.exit(f"{file}: is not in {Path.cwd()}, the code of the job")
    try:
        packages = folder / key_of(files_of(file, Path()))
    except ValueError as refusal:
        sys.exit(str(refusal))
    folder.mkdir(parents=True, exist_ok=True)
    if packages.is_dir():
        with suppress(OSError):  # of another user
            os.utime(packages)
        print(f"packages of {file}: found in {packages}")
    else:
        install_once(file, packages, folder / f"{packages.name}.failed-{os.environ['ATHANOR_JOB']}")
    link.unlink(missing_ok=True)
    link.symlink_to(packages)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
