"""Builders of a Dockerfile on this machine: docker if its daemon answers, else buildah."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from tools.docker import BUILDKIT, docker_builds
from tools.images.errors import ImageError
from tools.images.namespaces import WITHOUT_MACHINE_STORAGE
from tools.images.oci import CONFIG, LAYER, Descriptor, Layout, Sink, describe
from tools.paths import paths
from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """A build: `dockerfile` in `context`, on the image `base` of the layout that the result goes to."""

    context: Path
    dockerfile: Path
    base: str
    base_manifest: Descriptor
    arguments: Mapping[str, str]

    def flags(self, base: str) -> list[str]:
        """Return the command line flags that docker and buildah share, with `base` as the base image."""
        arguments = {"BASE_IMAGE": base, **self.arguments}
        flags = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        return [*flags, "--file", str(self.dockerfile)]


class Builder(Protocol):
    """Turns a Dockerfile into an image in a layout."""

    def build(self, request: BuildRequest, layout: Layout) -> Descriptor:
        """Build and return the manifest; layers that the layout has are not written again.

        Raises:
            CommandError: the build failed.
        """
        ...


def choose_builder(folder: Path) -> Builder:
    """Return the builder of this machine; buildah keeps its images in `folder`.

    Raises:
        ImageError: there is none.
    """
    if docker_builds():
        return Docker()
    if shutil.which("buildah"):
        return Buildah(folder)
    raise ImageError(
        "neither docker with BuildKit nor buildah is available. Fix: start docker, or run apt-get install buildah"
    )


class Buildah:
    """buildah with a storage of its own. Call it under the layout's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = paths().logs / "images.log"

    def build(self, request: BuildRequest, layout: Layout) -> Descriptor:
        """Build with cached steps: only those run whose instructions or files changed."""
        buildah = self._session()
        with tempfile.TemporaryDirectory(dir=layout.folder, prefix="incoming-") as folder:
            # buildah makes the image's name of the layout's path, which then must be no more than a plain word.
            source = f"oci:{layout.folder.name}:{request.base}"
            base = run([*buildah, "pull", "--quiet", source], cwd=layout.folder.parent, log=self._log).strip()
            image_file = Path(folder, "image-id")
            # No namespaces: they are not available in every container or virtual machine, and the files are our own.
            flags = ["--isolation", "chroot", "--layers", "--pull=never", "--timestamp", "0", "--format", "oci"]
            flags += ["--iidfile", str(image_file), *request.flags(base)]
            run([*buildah, "bud", *flags, request.context], log=self._log)
            image = image_file.read_text(encoding="ascii").strip()
            pushed = self._push(buildah, image, layout, Path(folder))
            self._forget_others(buildah, keep={base, image.removeprefix("sha256:")})
        return pushed

    def _push(self, buildah: list[str], image: str, layout: Layout, folder: Path) -> Descriptor:
        """Write the image into a layout of its own that shares the blobs of ours: our index is never half-written."""
        (folder / "blobs").symlink_to(layout.blobs.parent)
        run([*buildah, "push", "--quiet", "--disable-compression", image, f"oci:{folder}:built"], log=self._log)
        (entry,) = json.loads((folder / "index.json").read_bytes())["manifests"]
        return describe(entry)

    def _forget_others(self, buildah: list[str], keep: set[str]) -> None:
        """Delete images of earlier contents; the steps that the kept image was built by stay for the next build."""
        listed: list[dict[str, Any]] = json.loads(run([*buildah, "images", "--json"]) or "[]")
        # The listing shortens the ids.
        old = [entry["id"] for entry in listed if not any(image.startswith(entry["id"]) for image in keep)]
        if old:
            run([*buildah, "rmi", "--force", *old], log=self._log)

    def _session(self) -> list[str]:
        """Return the command's first words, after cleaning up what a killed run left."""
        storage, temporary = self._folder / "storage", self._folder / "tmp"
        # Who has what mounted is remembered there: wrong after a kill or a reboot, and needed by nobody in between.
        shutil.rmtree(self._folder / "run", ignore_errors=True)
        temporary.mkdir(parents=True, exist_ok=True)
        places = ["--root", str(storage), "--runroot", str(self._folder / "run"), "--storage-driver", "overlay"]
        buildah = [*WITHOUT_MACHINE_STORAGE, "env", f"TMPDIR={temporary}", "buildah", *places]
        if not self._remove_containers(buildah, storage):
            shutil.rmtree(storage)
        return buildah

    def _remove_containers(self, buildah: list[str], storage: Path) -> bool:
        """Delete the containers of killed builds; return whether the storage is clean and readable now."""
        try:
            run([*buildah, "rm", "--all"], log=self._log)
            # One that was killed within its first moments is not a container to buildah, yet holds its image.
            remaining = (storage / "overlay-containers" / "containers.json").read_bytes()
        except CommandError:
            return False
        except FileNotFoundError:
            return True
        return json.loads(remaining) == []


class Docker:
    """docker and its daemon, any version since 18.09 (BuildKit)."""

    def build(self, request: BuildRequest, layout: Layout) -> Descriptor:
        """Give the base image to the daemon, build on it, and take the result from it."""
        log = paths().logs / "images.log"
        with tempfile.TemporaryDirectory(dir=layout.folder, prefix="incoming-") as folder:
            if not run(["docker", "images", "--quiet", request.base]).strip():
                archive = Path(folder, "base.tar")
                with archive.open("wb") as file:
                    layout.write_archive(Sink(file), request.base, request.base_manifest)
                run(["docker", "load", "--input", archive], log=log)
                archive.unlink()
            image_file = Path(folder, "image-id")
            # The base holds every package already: a build that asked the network would be a mistake.
            command = ["docker", "build", "--network", "none", "--iidfile", str(image_file)]
            run([*command, *request.flags(request.base), request.context], env=BUILDKIT, log=log)
            image = image_file.read_text(encoding="ascii").strip()
            manifest = _saved_by_docker(image, layout)
            self._forget_others(image, request.base)
        return manifest

    def _forget_others(self, image: str, base: str) -> None:
        """Delete the built image, whose steps stay in the build cache, and base images of earlier contents."""
        log = paths().logs / "images.log"
        repository = base.rpartition(":")[0]
        listed = run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", repository]).split()
        run(["docker", "rmi", "--force", image, *(name for name in listed if name != base)], log=log)


def _saved_by_docker(image: str, layout: Layout) -> Descriptor:
    command = ["docker", "save", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as save:
        assert save.stdout is not None
        manifest = take_docker_archive(save.stdout, layout)
    if save.returncode != 0:
        raise CommandError(command, save.returncode, "", None)
    return manifest


def take_docker_archive(stream: IO[bytes], layout: Layout) -> Descriptor:
    """Put the one image of a `docker save` stream into `layout` and return its manifest.

    Format: Docker image specification v1.2, "Combined Image JSON + Filesystem Changeset Format". Layers that appear
    twice are links in it.

    Raises:
        ImageError: the stream holds no image.
    """
    blobs: dict[str, Descriptor] = {}
    small: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.islnk() or member.issym():
                target = member.linkname if member.islnk() else str(Path(member.name).parent / member.linkname)
                blobs[member.name] = blobs[_normal(target)]
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                continue
            if member.name.endswith(".json") or member.size < 1 << 16:
                small[member.name] = content.read()
                blobs[member.name] = layout.add(small[member.name], LAYER)
            else:
                blobs[member.name] = layout.add_stream(lambda sink, file=content: shutil.copyfileobj(file, sink), LAYER)
    if "manifest.json" not in small:
        raise ImageError("docker save wrote no manifest.json")
    (image,) = json.loads(small["manifest.json"])
    config = layout.add(layout.path(blobs[image["Config"]].digest).read_bytes(), CONFIG)
    return layout.add_manifest(config, [blobs[name] for name in image["Layers"]])


def _normal(name: str) -> str:
    return str(Path("/", name).resolve().relative_to("/"))
