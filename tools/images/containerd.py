"""The node's images in containerd's Kubernetes namespace: listing and import."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from tools.images.errors import ImageError
from tools.images.oci import Sink
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from tools.images.oci import Descriptor, Layout

KUBERNETES_NAMESPACE = "k8s.io"
NODE_BLOBS = "node/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
"""Path of a local containerd's blobs, relative to its socket's folder: `node/lib` is the node's /var/lib."""
LINKED_FROM_BYTES = 1 << 20
"""Blobs from this size on are linked. Each costs a start of `ctr`, which sends a smaller one in less time."""


class NodeImages:
    """The image store of one containerd, which is asked for its images once, and after each import."""

    def __init__(self, socket: Path, *, namespace: str = KUBERNETES_NAMESPACE) -> None:
        self._ctr = ["ctr", "--address", str(socket), "--namespace", namespace]
        self._blobs = socket.parent / NODE_BLOBS
        self._manifests: dict[str, str] | None = None

    def manifests(self) -> dict[str, str]:
        """Return the digest of each image's manifest by the image's name.

        Raises:
            CommandError: containerd does not answer.
        """
        if self._manifests is None:
            rows = [line.split() for line in run([*self._ctr, "images", "ls"]).splitlines()[1:]]
            self._manifests = {row[0]: row[2] for row in rows}
        return self._manifests

    def load(self, layout: Layout, reference: str, manifest: Descriptor) -> bool:
        """Bring an image in under the name `reference`, sending only blobs that are not there yet; unpack it.

        Large blobs become hard links to the files of `layout` where the node's disk is the same one.

        Returns:
            Whether anything had to be done.

        Raises:
            CommandError: containerd refused it.
        """
        if self.manifests().get(reference) == manifest.digest:
            return False
        try:
            present = self._content()
            present |= self._link([layout.path(blob.digest) for blob in layout.members(manifest)], present)
            self._import(layout, reference, manifest, present)
        except CommandError:
            # containerd may have collected a blob between the listing and the import: send all of them.
            self._import(layout, reference, manifest, set())
        self._manifests = None
        if self.manifests().get(reference) != manifest.digest:
            raise ImageError(f"containerd has no image {reference} with manifest {manifest.digest} after importing it")
        return True

    def _content(self) -> set[str]:
        """Return the digests of all blobs that the node has."""
        return set(run([*self._ctr, "content", "ls", "--quiet"]).split())

    def _link(self, files: Iterable[Path], present: Collection[str]) -> set[str]:
        """Put links to large blobs where containerd keeps its own, and return their digests.

        To send a gigabyte, which containerd hashes and writes once more, takes it longer than to unpack it. A file that
        is there already is only entered in its books; an unpacked layer's digest is checked in any case.
        """
        linked: set[str] = set()
        for file in files:
            digest = f"sha256:{file.name}"
            if digest in present or file.stat().st_size < LINKED_FROM_BYTES:
                continue
            try:
                with suppress(FileExistsError):
                    os.link(file, self._blobs / file.name)
            except OSError:
                continue  # another disk, or a containerd that is not a local cluster's: the archive has the blob
            size = str(file.stat().st_size)
            words = ["--expected-digest", digest, "--expected-size", size, f"athanor-{digest}"]
            with file.open("rb") as content:
                run([*self._ctr, "content", "ingest", *words], stdin=content)
            linked.add(digest)
        return linked

    def _import(self, layout: Layout, reference: str, manifest: Descriptor, present: set[str]) -> None:
        command = [*self._ctr, "images", "import", "-"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as importer:
            assert importer.stdin is not None
            assert importer.stdout is not None
            said = _Reader(importer.stdout)
            try:
                with importer.stdin as archive:
                    layout.write_archive(Sink(archive), reference, manifest, present=present)
            except BrokenPipeError:
                pass  # it ended early; its status and output say why
            except BaseException:
                importer.kill()
                raise
            status = importer.wait()
        if status != 0:
            raise CommandError(command, status, said.text(), None)


class _Reader(threading.Thread):
    """Reads a pipe to its end, so that its writer never waits."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._content = b""
        self.start()

    def run(self) -> None:
        self._content = self._pipe.read()

    def text(self) -> str:
        self.join()
        return self._content.decode(errors="replace").strip()
