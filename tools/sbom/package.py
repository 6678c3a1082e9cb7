"""An entry of a bill of materials, independent of the format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Properties = tuple[tuple[str, str], ...]
"""Facts without a field in the format, as name and value; a name may come more than once."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One package of something, in one version."""

    kind: Literal["pypi", "golang", "deb"]
    """Its type in package URLs (package-url/purl-spec, PURL-TYPES)."""
    name: str
    """Its name as its ecosystem writes it; a Go module with its whole path."""
    version: str | None
    """None where it is decided only when the thing is built."""
    qualifiers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Qualifiers of its package URL."""
    properties: Properties = ()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a bill of materials."""

    kind: Literal["container", "application"]
    name: str
    version: str
    """Changes with everything that the thing is built from."""
    properties: Properties = ()


@dataclass(frozen=True, kw_only=True)
class Bill:
    """A subject and all that is in it."""

    file_name: str
    """Name of the file that it is written to, without the ending."""
    subject: Subject
    packages: tuple[Package, ...]


def content_version(*files: Path) -> str:
    """Return a version that changes with the content of files: 16 hex digits of SHA-256."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
