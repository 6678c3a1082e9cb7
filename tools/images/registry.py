"""Upstream's images from their registries: pulled by skopeo, checked against their digests, kept in the cache.

Why, and why skopeo: docs/decisions/0012-platform-images-from-registries.md.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.image_digests import DIGESTS, by_digest
from infra.registry import ImageReference
from tools.images.errors import ImageError
from tools.images.namespaces import WITHOUT_MACHINE_STORAGE
from tools.images.oci import MANIFEST, architecture, describe
from tools.images.store import open_layout, pull_folder
from tools.paths import paths
from tools.toolchain.system_packages import SKOPEO, SystemPackageError, ensure_system_packages
from tools.toolchain.vendor import UnreachableError, Vendors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

_STALL_SECONDS = 30.0
_PULL_SECONDS = 600.0
_POLL_SECONDS = 0.5
_AT_ONCE = 4
_API_HOSTS = {"docker.io": "registry-1.docker.io"}
"""Host of a registry's API, if not on the host of its images' names."""


class RegistryError(ImageError):
    """A registry does not give an image, or not the one that it should be."""


def find(layout: Layout, reference: str) -> Descriptor | None:
    """Return the manifest of an image that was pulled before; None if the layout has none of the pinned digest."""
    pinned = DIGESTS.get(reference)
    names = [name for name in layout.references() if name.startswith(f"{reference}@")]
    fitting = [name for name in names if pinned is None or name == f"{reference}@{pinned}"]
    return layout.find(fitting[-1]) if fitting else None


def pull(sources: Mapping[str, str], report: Progress) -> None:
    """Put the images into the cache that their registries give; images.log says what is amiss with the others.

    Args:
        sources: where each image is pulled from (`host/path:tag`), by its upstream's reference.
        report: shows each image.
    """
    answering = _answering({_host(source) for source in sources.values()})
    reachable = {reference: source for reference, source in sources.items() if _host(source) in answering}
    if not reachable:
        return
    try:
        ensure_system_packages(report, [SKOPEO])
    except SystemPackageError as error:
        _note(f"no image is pulled: {error}")
        return
    with pull_folder() as folder:
        # Another process may have pulled some while this one waited for the folder.
        with open_layout() as layout:
            missing = {ref: source for ref, source in reachable.items() if find(layout, ref) is None}
        _pull_all(missing, folder, report)


def _pull_all(sources: Mapping[str, str], folder: Path, report: Progress) -> None:
    report.detail(f"{len(sources)} images from {', '.join(sorted({_host(source) for source in sources.values()}))}")
    puller = _Puller()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pulls = {
            reference: pool.submit(puller.pull, source, DIGESTS.get(reference), folder / str(number))
            for number, (reference, source) in enumerate(sources.items())
        }
        for reference, pulling in pulls.items():
            try:
                image = pulling.result()
                with open_layout() as layout:
                    _add(layout, reference, image)
            except RegistryError as error:
                _note(f"{reference}: {error}")
            else:
                report.detail(f"image {reference} pulled")


@dataclass(frozen=True)
class _Puller:
    """The pulls of one run; a registry that stopped half-way once is not asked for more."""

    _stalled: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pull(self, source: str, digest: str | None, folder: Path) -> Path:
        """Pull an image for this machine's architecture into `folder`, as skopeo's `dir` transport lays it out.

        Raises:
            RegistryError: the registry has none, has another than `digest`, or sends nothing any more.
        """
        host = _host(source)
        with self._lock:
            if host in self._stalled:
                raise RegistryError(f"{host} stopped sending")
        folder.mkdir()
        platform = ["--override-os", "linux", "--override-arch", architecture()]
        command = [*WITHOUT_MACHINE_STORAGE, "skopeo", *platform, "copy", "--quiet"]
        try:
            _run_while_growing([*command, f"docker://{by_digest(source, digest)}", f"dir:{folder}"], folder)
        except TimeoutError as error:
            with self._lock:
                self._stalled.add(host)
            raise RegistryError(f"{source}: {error}") from error
        return folder


def _run_while_growing(command: list[str], folder: Path) -> None:
    """Run a download into `folder` to its end.

    Raises:
        RegistryError: it failed; with what it said.
        TimeoutError: it was ended, because nothing had come for _STALL_SECONDS or it took _PULL_SECONDS.
    """
    begin = last = time.monotonic()
    size = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            while True:
                try:
                    said, _ = process.communicate(timeout=_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    grown, now = _size(folder), time.monotonic()
                    last = now if grown > size else last
                    size = grown
                    if now - last > _STALL_SECONDS:
                        raise TimeoutError(f"received nothing for {_STALL_SECONDS:.0f} s") from None
                    if now - begin > _PULL_SECONDS:
                        raise TimeoutError(f"not complete within {_PULL_SECONDS:.0f} s") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RegistryError(said.strip())


def _size(folder: Path) -> int:
    total = 0
    for file in folder.iterdir():
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # complete, and renamed since
            continue
    return total


def _add(layout: Layout, reference: str, folder: Path) -> None:
    """Move a pulled image into the layout, every part checked, and name it by its digest.

    Raises:
        RegistryError: it is not an image for this machine, or a part differs from its digest.
    """
    content = (folder / "manifest.json").read_bytes()
    manifest = json.loads(content)
    if "config" not in manifest:
        raise RegistryError(f"its manifest has type {manifest.get('mediaType', 'unknown')}, which has no config")
    parts = [describe(entry) for entry in (manifest["config"], *manifest["layers"])]
    files = {part.digest: folder / part.digest.removeprefix("sha256:") for part in parts}
    for digest, file in files.items():
        with file.open("rb") as blob:
            actual = f"sha256:{hashlib.file_digest(blob, 'sha256').hexdigest()}"
        if actual != digest:
            raise RegistryError(f"a blob has digest {actual}, but the manifest names {digest}")
    config = json.loads(files[parts[0].digest].read_bytes())
    if (config.get("os"), config.get("architecture")) != ("linux", architecture()):
        raise RegistryError(f"it is for {config.get('os')}/{config.get('architecture')}, not linux/{architecture()}")
    for digest, file in files.items():
        file.chmod(0o644)
        file.replace(layout.path(digest))
    image = layout.add(content, manifest.get("mediaType", MANIFEST))
    layout.tag(f"{reference}@{DIGESTS.get(reference, image.digest)}", image)


def _answering(hosts: Iterable[str]) -> set[str]:
    """Return those of the registries that answer within vendor.PROBE_SECONDS."""
    vendors = Vendors()

    def answers(host: str) -> bool:
        try:
            vendors.probe(f"https://{_API_HOSTS.get(host, host)}/v2/")
        except UnreachableError as error:
            _note(f"no image is pulled from {host}: {error}")
            return False
        return True

    asked = sorted(hosts)
    with ThreadPoolExecutor(len(asked)) as pool:
        return {host for host, yes in zip(asked, pool.map(answers, asked), strict=True) if yes}


def _host(source: str) -> str:
    return ImageReference.parse(source).host


def _note(text: str) -> None:
    log = paths().logs / "images.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
