"""A job's code from a local folder: an archive in ConfigMaps, which every pod verifies and unpacks.

Why ConfigMaps, and why so small: docs/decisions/0023-code-from-a-folder-in-configmaps.md.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL, OWNER_LABEL
from workloads.folder_archive import FolderArchive, pack
from workloads.git_source import CODE_PATH, code_mount
from workloads.pods import Container, Mount
from workloads.resources import Resources

if TYPE_CHECKING:
    import pulumi

    from infra.manifests import Manifest

_PART_BYTES = 1_000_000
"""Part of the 1 MiB that a ConfigMap may have (kubernetes.io, "ConfigMaps")."""
_PARTS_PATH = "/etc/athanor/code"
_UNPACK = (Path(__file__).parent / "unpack_folder.py").read_text(encoding="utf-8")
"""Sent along as text: a platform of an earlier release has no such program in its image."""
_NAME_DIGITS = 16


@checked("source")
@dataclass(frozen=True, kw_only=True)
class LocalFolder:
    """Code in a folder of the machine that declares the job: at most 8 MiB, without what .gitignore names."""

    path: str = field(default=".", kw_only=False)
    """The folder, relative to where the program runs."""

    def __post_init__(self) -> None:
        """Refuse what is not a folder.

        Raises:
            RefusalError: naming it.
        """
        if not self.path or not _is_folder(Path(self.path)):
            raise RefusalError("source.path", self.path, "is not a folder", "name the folder that has the code")

    @cached_property
    def archive(self) -> FolderArchive:
        """The files as they are when this is first asked for: all pods get the same, whatever happens to the folder.

        Raises:
            RefusalError: the folder cannot be sent, as `folder_archive.pack` says.
        """
        return pack(Path(self.path).resolve())


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # it cannot be asked for: its name is too long, or a folder above it is closed
        return False


def part_names(source: LocalFolder, job: str, owner: str) -> list[str]:
    """Return the names of the ConfigMaps: other files have others, and so have the jobs of two stacks."""
    parts = -(-len(source.archive.content) // _PART_BYTES)
    return [f"code.{job}.{owner}.{source.archive.digest[:_NAME_DIGITS]}.{part}" for part in range(parts)]


def config_map_manifests(source: LocalFolder, job: str, owner: str, namespace: pulumi.Input[str]) -> list[Manifest]:
    """Return the ConfigMaps that hold a job's code.

    Args:
        source: The folder.
        job: The job's logical name.
        owner: The stack that declares it, as in the label athanor.dev/owner.
        namespace: The workloads' namespace.
    """
    content = source.archive.content
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {JOB_LABEL: job, OWNER_LABEL: owner}},
            # The kubelet need not watch it, and nobody can change what a restarted pod gets.
            "immutable": True,
            "binaryData": {_key(part): _encoded(content[part * _PART_BYTES : (part + 1) * _PART_BYTES])},
        }
        for part, name in enumerate(part_names(source, job, owner))
    ]


def _key(part: int) -> str:
    return f"part-{part:03}"


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def unpack_container(source: LocalFolder, image: str, job: str, owner: str) -> Container:
    """Return the init container that unpacks the code, proven by its digest.

    Args:
        source: The folder.
        image: An image with Python: the job's own need not have it.
        job: The job's logical name.
        owner: The stack that declares it.
    """
    parts = [
        {"configMap": {"name": name, "items": [{"key": _key(part), "path": _key(part)}]}}
        for part, name in enumerate(part_names(source, job, owner))
    ]
    return Container(
        name="unpack",
        image=image,
        command=["python3", "-c", _UNPACK, _PARTS_PATH, source.archive.digest, CODE_PATH],
        resources=Resources(cpu="100m", memory="512Mi"),
        writes_output=False,
        mounts=[code_mount(), Mount(name="code", path=_PARTS_PATH, volume={"projected": {"sources": parts}})],
    )
