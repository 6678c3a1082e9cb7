"""Builds the root file system of a small Debian with Python, from this machine's package sources."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tools.images.namespaces import DIES_WITH_ATHANOR
from tools.paths import paths
from tools.process import run
from trainer.image import debian

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = ("etc/apt/sources.list", "etc/apt/sources.list.d/debian.sources")
CERTIFICATES, CERTIFICATE_BUNDLE = "usr/share/ca-certificates", "etc/ssl/certs/ca-certificates.crt"
MERGED_USR_HOOKS = Path("/usr/share/mmdebstrap/hooks/merged-usr")


def bootstrap(root: Path) -> None:
    """Unpack the packages of trainer.image.debian and what they depend on into the empty folder `root`.

    They are unpacked, not configured: no package manager will ever run in it, and the few things that their scripts
    would have done are done here. That takes a third of the time and of the space.

    Raises:
        CommandError: a package is not available.
    """
    command = [
        *DIES_WITH_ATHANOR,
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        "--format=directory",
        f"--hook-dir={MERGED_USR_HOOKS}",
    ]
    log = paths().logs / "images.log"
    env = {"SOURCE_DATE_EPOCH": str(debian.TIMESTAMP_SECONDS)}
    run([*command, f"--include={','.join(debian.PACKAGES)}", debian.SUITE, root, *_package_sources()], env=env, log=log)
    for kind in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{kind}.master", root / "etc" / kind)
    bundle_certificates(root)
    for name, target in debian.LINKS.items():
        (root / name).symlink_to(target)
    for name in debian.LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / debian.EXTERNALLY_MANAGED).unlink(missing_ok=True)
    # Python's process pools, which compile below, keep their semaphores there; pods have a memory file system on it.
    (root / "dev/shm").mkdir(parents=True, exist_ok=True)
    run(["chroot", root, "ldconfig"], log=log)
    byte_compile(root, f"usr/lib/python{debian.PYTHON}")


def bundle_certificates(root: Path) -> None:
    """Join the certificates of Debian's authorities into the file where OpenSSL looks for all of them."""
    authorities = sorted((root / CERTIFICATES).glob("*/*.crt"))
    bundle = root / CERTIFICATE_BUNDLE
    bundle.write_bytes(b"".join(authority.read_bytes() for authority in authorities))


def byte_compile(root: Path, folder: str) -> None:
    """Compile all modules in `root`/`folder` by the Python in `root`.

    The root file system of a pod is read-only: what is not compiled now is compiled again at every start (measured:
    `import torch` in 5.2 s instead of 1.6 s). The files do not name a time, as layers change the times of sources.
    """
    # A module that does not compile is for a newer Python than this one, and is not imported either: no failure.
    arguments = "quiet=2, workers=0, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH"
    program = f"import compileall, py_compile; compileall.compile_dir({f'/{folder}'!r}, {arguments})"
    run(["chroot", root, f"python{debian.PYTHON}", "-c", program], log=paths().logs / "images.log")


def _package_sources() -> Sequence[Path]:
    """Return this machine's own sources if they are for the same suite, so that a configured mirror is used."""
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != debian.SUITE:
        return ()
    return [path for path in (Path("/", source) for source in SOURCES) if path.is_file() and path.stat().st_size]
