"""Downloads of tools from their vendors, verified against the recorded or published checksum.

A file with a digest here must match it. For some files no independent source of a digest is known: catalogue.py names
them by their `checksums`, and they must match the digest that their vendor publishes. Nothing else is taken. Sources:
Kubespray's checksums.yml at 46dbdd3 (kubelet, kubectl), and for the archives the digests that more than five public
projects pin alike.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import threading
import urllib.error
import urllib.request
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from tools.paths import paths
from tools.process import CommandError, ProgramTimeoutError, run
from tools.toolchain.errors import ToolchainError
from tools.toolchain.tool import arch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tools.toolchain.tool import Tool

_KUBERNETES = "https://dl.k8s.io/v1.34.4/bin/linux"
_PROMETHEUS = "https://github.com/prometheus/prometheus/releases/download/v3.14.0/prometheus-3.14.0.linux"
_NODE_EXPORTER = "https://github.com/prometheus/node_exporter/releases/download/v1.12.1/node_exporter-1.12.1.linux"

DIGESTS: Mapping[str, str] = {
    f"{_KUBERNETES}/amd64/kubectl": "d50c359d95e0841eaad08ddc27c7be37cba8fdccfba5c8e2ded65e121ff112db",
    f"{_KUBERNETES}/arm64/kubectl": "5b982c0644ab1e27780246b9085a5886651b4a7ed86243acbb2bacc1bea01dda",
    f"{_KUBERNETES}/amd64/kubelet": "03b8fea715a7ef82eeaf518dee34c72670c57cc7bc40dc1320c04fbf4f15172f",
    f"{_KUBERNETES}/arm64/kubelet": "c78845473c434ee85a2444eeab87f8b20f524e3ab6854a078f79468f44aad8f5",
    f"{_PROMETHEUS}-amd64.tar.gz": "f665c6da19eb7ba399c915d30c7d9793c9b417bf8a749b504bc470678631478d",
    f"{_PROMETHEUS}-arm64.tar.gz": "077f3781ab7245dc04c9a3c9b78ba120fc8e41aa0dc97489b0af67247e50ba83",
    f"{_NODE_EXPORTER}-amd64.tar.gz": "b51d8a76aa2a9156a55d501aca6276fae09e262259a5e4e831d2c2222f084e63",
    f"{_NODE_EXPORTER}-arm64.tar.gz": "ad35b605f9954b9f1ffddf5ba054bdc5a98d790b9eae5291e1eeb83f1ecbd0e7",
}
"""Lower-case hex by the address that `Vendor.url` has for a version and an architecture."""


PROBE_SECONDS = 3.0
_STALL_SECONDS = 30.0
_PLUGIN_SECONDS = 600.0
_PLUGIN_SERVER = "https://get.pulumi.com/releases/plugins/"


class VendorError(ToolchainError):
    """A vendor does not answer, or not with what it says itself that it should be."""


class UnreachableError(VendorError):
    """A vendor's server cannot be reached from here at all."""


class Vendors:
    """Downloads of one run; a server that did not answer once is not asked again."""

    def __init__(self) -> None:
        self._silent: set[str] = set()

    def download(self, tool: Tool, folder: Path) -> dict[str, Path]:
        """Download `tool` into `folder` and return the file of each of its programs.

        Raises:
            VendorError: its vendor offers none or does not answer, no digest is known, or the file has another one.
        """
        if tool.vendor is None:
            raise VendorError(f"{tool.name} has no vendor download")
        url, checksums = tool.vendor.addresses(tool.version, arch())
        if expected := DIGESTS.get(url, ""):
            self.probe(url)
        elif not checksums:
            raise VendorError(f"no digest of {url} is recorded in vendor.py")
        else:
            published = self._read_quickly(checksums).decode()
            expected = published_checksum(published, PurePosixPath(urlsplit(url).path).name)
        file = folder / f"{tool.name}.download"
        _fetch(url, file, expected)
        return extract_programs(file, tool.programs, folder) if url.endswith((".tgz", ".tar.gz")) else {tool.name: file}

    def install_plugin(self, tool: Tool, pulumi: Path, pulumi_home: Path) -> None:
        """Make the engine install a resource plugin, which it does atomically.

        Raises:
            VendorError: the plugin server does not answer, or the engine failed.
        """
        self.probe(_PLUGIN_SERVER)
        command = [pulumi, "plugin", "install", "resource", tool.name.removeprefix("pulumi-resource-")]
        try:
            run(
                [*command, f"v{tool.version}"],
                env={"PULUMI_HOME": str(pulumi_home), "PULUMI_SKIP_UPDATE_CHECK": "true"},
                log=paths().logs / "toolchain.log",
                timeout_seconds=_PLUGIN_SECONDS,
            )
        except (CommandError, ProgramTimeoutError) as error:
            raise VendorError(str(error)) from error

    def probe(self, url: str) -> None:
        """Learn within PROBE_SECONDS whether a server answers: that there is no such page is an answer, too.

        Raises:
            UnreachableError: it does not.
        """
        try:
            self._read_quickly(url, method="HEAD")
        except UnreachableError:
            raise
        except VendorError:
            pass

    def _read_quickly(self, url: str, method: str = "GET") -> bytes:
        """Read a small file, or learn within PROBE_SECONDS that its server is not reachable from here."""
        server = urlsplit(url).netloc
        if server in self._silent:
            raise UnreachableError(f"{server} did not answer")
        answer: list[bytes | VendorError] = []

        def ask() -> None:
            try:
                with _open(url, PROBE_SECONDS, method) as response:
                    answer.append(response.read())
            except VendorError as error:
                answer.append(error)

        # In a thread because resolving a name can hang longer than any timeout that a socket knows.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(PROBE_SECONDS)
        content = answer[0] if answer else UnreachableError(f"{server} did not answer within {PROBE_SECONDS:.0f} s")
        if isinstance(content, UnreachableError):
            self._silent.add(server)
        if isinstance(content, VendorError):
            raise content
        return content


def published_checksum(text: str, file_name: str) -> str:
    """Return the SHA-256 digest of `file_name` from a vendor's checksum file.

    Raises:
        VendorError: it is not in there.
    """
    for line in text.splitlines():
        digest, *names = line.split()[:2] or [""]
        if len(digest) == 64 and (not names or PurePosixPath(names[0].lstrip("*")).name == file_name):
            return digest.lower()
    raise VendorError(f"the vendor's checksums do not list {file_name}")


def extract_programs(archive: Path, programs: tuple[str, ...], folder: Path) -> dict[str, Path]:
    """Take the programs out of a gzipped tar file, wherever in it they are; return their files by name.

    Raises:
        VendorError: one of them is not in there.
    """
    files: dict[str, Path] = {}
    with tarfile.open(archive, "r:gz") as content:
        for member in content:
            name = PurePosixPath(member.name).name
            source = content.extractfile(member) if name in programs and member.isfile() else None
            if source is not None:
                files[name] = folder / name
                with source, files[name].open("wb") as target:
                    shutil.copyfileobj(source, target)
    if missing := set(programs) - files.keys():
        raise VendorError(f"{archive.name} does not contain {', '.join(sorted(missing))}")
    return files


def _fetch(url: str, file: Path, expected: str) -> None:
    with _open(url, _STALL_SECONDS) as response, file.open("wb") as target:
        try:
            shutil.copyfileobj(response, target)
        except (OSError, http.client.HTTPException) as error:
            raise VendorError(f"{url} broke off: {error}") from error
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != expected:
        file.unlink()
        raise VendorError(f"{url} has SHA-256 {digest}, but {expected} is recorded or published for it")


def _open(url: str, timeout_seconds: float, method: str = "GET") -> IO[bytes]:
    request = urllib.request.Request(url, method=method, headers={"User-Agent": "athanor"})  # noqa: S310 - our own table
    try:
        return urllib.request.urlopen(request, timeout=timeout_seconds)  # noqa: S310 - our own table
    except urllib.error.HTTPError as error:
        error.close()
        raise VendorError(f"{url}: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url}: {error}") from error
