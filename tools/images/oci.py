"""OCI images in a folder: blobs named by their SHA-256, an index of references, archives for loading.

Formats: OCI image specification v1.1, image-layout.md, manifest.md, config.md, layer.md. No build tool is involved, so
a static binary becomes an image in the time it takes to hash it, and the same input gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tools.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
"""Layers stay uncompressed: they travel from this disk to this disk, where compression only costs time."""

REFERENCE_ANNOTATION = "org.opencontainers.image.ref.name"
CONTAINERD_NAME_ANNOTATION = "io.containerd.image.name"
LAYOUT_MARKER = b'{"imageLayoutVersion":"1.0.0"}'
COPY_BYTES = 1 << 20
CREATED = "1970-01-01T00:00:00Z"

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """A blob's type (`media_type`), digest (`digest`, "sha256:<hex>") and size (`size`, bytes)."""

    media_type: str
    digest: str
    size: int

    def as_json(self) -> dict[str, Any]:
        """Return the descriptor as the specification writes it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The start of an image's containers."""

    entrypoint: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class Sink:
    """A file that is only written and knows its position, which is all that an archive needs: a pipe will do."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    def write(self, data: bytes, /) -> int:
        """Write all of `data`."""
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.size

    def open_tar(self) -> tarfile.TarFile:
        """Return a tar archive to write into this sink."""
        # typeshed asks for a whole binary file where tarfile, writing, calls only write() and tell().
        file = cast("IO[bytes]", self)
        return tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, copybufsize=COPY_BYTES)


class HashingSink(Sink):
    """A sink that also knows the digest of what went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._hash = hashlib.sha256()

    def write(self, data: bytes, /) -> int:
        """Hash and write all of `data`."""
        self._hash.update(data)
        return super().write(data)

    @property
    def digest(self) -> str:
        """SHA-256 of everything written so far, as "sha256:<hex>"."""
        return f"sha256:{self._hash.hexdigest()}"


class Layout:
    """An OCI image layout in a folder. Every change is a rename, so a kill at any time leaves a valid layout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True, exist_ok=True)
        marker = folder / "oci-layout"
        if not marker.exists():
            self._write(marker, LAYOUT_MARKER)

    def path(self, digest: str) -> Path:
        """Return where the blob named `digest` lies or would lie."""
        return self.blobs / digest.removeprefix("sha256:")

    def has(self, blob: Descriptor) -> bool:
        """Return whether the blob is here in its full length."""
        path = self.path(blob.digest)
        return path.is_file() and path.stat().st_size == blob.size

    def add(self, content: bytes, media_type: str) -> Descriptor:
        """Store `content` and describe it."""
        descriptor = Descriptor(
            media_type=media_type, digest=f"sha256:{hashlib.sha256(content).hexdigest()}", size=len(content)
        )
        if not self.has(descriptor):
            self._write(self.path(descriptor.digest), content)
        return descriptor

    def add_stream(self, write: Callable[[Sink], None], media_type: str) -> Descriptor:
        """Store what `write` writes into the file it is given (one pass: hashed while it is written)."""
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix="incoming-", delete=False) as file:
            temporary = Path(file.name)
            try:
                sink = HashingSink(file)
                write(sink)
                file.flush()
                temporary.chmod(0o644)
                temporary.replace(self.path(sink.digest))
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return Descriptor(media_type=media_type, digest=sink.digest, size=sink.size)

    def add_image(self, layers: list[Descriptor], run: RunConfig) -> Descriptor:
        """Store an image made of uncompressed `layers`, lowest first; return its manifest."""
        container = {"Env": [f"{name}={value}" for name, value in sorted(run.env.items())]}
        container |= {"User": run.user, "WorkingDir": run.working_dir, "Entrypoint": list(run.entrypoint)}
        config = {
            "created": CREATED,
            "architecture": architecture(),
            "os": "linux",
            "config": {name: value for name, value in container.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
            # Optional by the specification, but buildah builds on no image without it.
            "history": [{"created": CREATED, "created_by": "athanor"} for _ in layers],
        }
        return self.add_manifest(self.add(_json(config), CONFIG), layers)

    def add_manifest(self, config: Descriptor, layers: list[Descriptor]) -> Descriptor:
        """Store the manifest of an image whose config and layers are here, and describe it."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.as_json(),
            "layers": [layer.as_json() for layer in layers],
        }
        return self.add(_json(manifest), MANIFEST)

    def members(self, manifest: Descriptor) -> list[Descriptor]:
        """Return the manifest, its config and its layers.

        Raises:
            ImageError: one of them is not here.
        """
        members = [manifest]
        if self.has(manifest):
            content = json.loads(self.path(manifest.digest).read_bytes())
            members += [describe(part) for part in (content["config"], *content["layers"])]
        for member in members:
            if not self.has(member):
                raise ImageError(f"{self.folder} lacks blob {member.digest} ({member.size} bytes)")
        return members

    def tag(self, reference: str, manifest: Descriptor) -> None:
        """Give the image a name; a name given before moves to it and is the latest."""
        others = {name: image for name, image in self.references().items() if name != reference}
        self._write_index({**others, reference: manifest})

    def untag(self, references: Collection[str]) -> None:
        """Take names away; their blobs stay until `collect_garbage`."""
        self._write_index({name: image for name, image in self.references().items() if name not in references})

    def references(self) -> dict[str, Descriptor]:
        """Return the manifests by name, in the order in which the names were given."""
        try:
            index = json.loads((self.folder / "index.json").read_bytes())
        except FileNotFoundError:
            return {}
        return {entry["annotations"][REFERENCE_ANNOTATION]: describe(entry) for entry in index["manifests"]}

    def find(self, reference: str) -> Descriptor | None:
        """Return the manifest of a complete image of that name, None if there is none."""
        manifest = self.references().get(reference)
        if manifest is None:
            return None
        try:
            self.members(manifest)
        except ImageError:
            return None
        return manifest

    def collect_garbage(self) -> int:
        """Delete what no name leads to, and what killed runs left; return the bytes freed. Call under a lock."""
        used: set[str] = set()
        for reference, manifest in self.references().items():
            if self.find(reference) is not None:
                used |= {self.path(member.digest).name for member in self.members(manifest)}
        unused = [path for path in self.blobs.iterdir() if path.name not in used]
        unused += self.folder.glob("incoming-*")
        freed = sum(path.stat().st_size for path in unused)
        for path in unused:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return freed

    def write_archive(self, sink: Sink, reference: str, manifest: Descriptor, *, present: Collection[str] = ()) -> None:
        """Write the image as a tar; blobs whose digest is in `present` are left out, as the receiver has them.

        It is an OCI layout for containerd, and by manifest.json what `docker load` of any version understands.
        """
        members = self.members(manifest)
        _, config, *layers = [f"blobs/sha256/{self.path(member.digest).name}" for member in members]
        docker_manifest = [{"Config": config, "RepoTags": [reference], "Layers": layers}]
        names = {CONTAINERD_NAME_ANNOTATION: reference, REFERENCE_ANNOTATION: reference}
        index = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [manifest.as_json() | {"annotations": names}],
        }
        with sink.open_tar() as archive:
            _add_bytes(archive, "oci-layout", LAYOUT_MARKER)
            _add_bytes(archive, "index.json", _json(index))
            _add_bytes(archive, "manifest.json", _json(docker_manifest))
            for digest in sorted({member.digest for member in members} - set(present)):
                path = self.path(digest)
                with path.open("rb") as blob:
                    entry = tarfile.TarInfo(f"blobs/sha256/{path.name}")
                    entry.size = path.stat().st_size
                    archive.addfile(entry, blob)

    def _write_index(self, references: Mapping[str, Descriptor]) -> None:
        entries = [
            manifest.as_json() | {"annotations": {REFERENCE_ANNOTATION: reference}}
            for reference, manifest in references.items()
        ]
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        self._write(self.folder / "index.json", _json(index))

    def _write(self, path: Path, content: bytes) -> None:
        temporary = self.folder / f"incoming-{os.getpid()}"
        temporary.write_bytes(content)
        temporary.replace(path)


def architecture() -> str:
    """Return this machine's architecture by the name that images use.

    Raises:
        ImageError: it is one that athanor has no images for.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise ImageError(f"machine type {machine} is not supported. Fix: use {' or '.join(ARCHITECTURES)}")
    return ARCHITECTURES[machine]


def describe(entry: Mapping[str, Any]) -> Descriptor:
    """Read a descriptor as the specification writes it."""
    return Descriptor(media_type=entry["mediaType"], digest=entry["digest"], size=entry["size"])


def _json(content: Mapping[str, Any] | list[dict[str, Any]]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
