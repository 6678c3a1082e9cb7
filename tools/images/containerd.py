"""The node's images: what containerd has in the Kubernetes namespace, and how an image gets in there."""

from __future__ import annotations

import subprocess
import threading
from typing import IO, TYPE_CHECKING

from tools.images.errors import ImageError
from tools.images.oci import Sink
from tools.process import CommandError, run

if TYPE_CHECKING:
    from pathlib import Path

    from tools.images.oci import Descriptor, Layout

KUBERNETES_NAMESPACE = "k8s.io"


class NodeImages:
    """The image store of one containerd, which is asked for its images once, and after each import."""

    def __init__(self, socket: Path, *, namespace: str = KUBERNETES_NAMESPACE) -> None:
        self._ctr = ["ctr", "--address", str(socket), "--namespace", namespace]
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

        Returns:
            Whether anything had to be done.

        Raises:
            CommandError: containerd refused it.
        """
        if self.manifests().get(reference) == manifest.digest:
            return False
        try:
            self._import(layout, reference, manifest, self._content())
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
