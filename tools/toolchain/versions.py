"""Versions of tools, read from the go.mod files that pin them, and other versions that are accepted."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tools.toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from pathlib import Path


class Version(NamedTuple):
    """A release's number, ordered as semantic versions are."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Fit(Enum):
    """The versions of a program on PATH that are accepted in place of the pinned one."""

    SAME_MINOR = "same minor version"
    """Its flags or its file formats change between minor versions."""
    NEAR_MINOR = "at most one minor version apart"
    """Kubernetes' promise for kubectl: https://kubernetes.io/releases/version-skew-policy/"""
    NOT_OLDER = "the same major version, not older"
    NEVER = "never"
    """It goes into a container image from scratch, so it has to be the static one that we know."""

    def accepts(self, present: Version, pinned: Version) -> bool:
        """Return whether `present` is accepted in place of `pinned`."""
        same_major = present.major == pinned.major
        match self:
            case Fit.SAME_MINOR:
                return same_major and present.minor == pinned.minor
            case Fit.NEAR_MINOR:
                return same_major and abs(present.minor - pinned.minor) <= 1
            case Fit.NOT_OLDER:
                return same_major and present >= pinned
            case Fit.NEVER:
                return False


# The suffix matters: `1.32.4-dispatcher` is some wrapper and `3.233.0-alpha.1` no release; `1.34.1+k3s1` is fine.
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)(?P<suffix>-[\w.]+)?")


def parse_version(text: str) -> Version | None:
    """Return the first release number in what a program prints about itself; None if there is none."""
    match = _VERSION.search(text)
    if match is None or match["suffix"]:
        return None
    return Version(int(match[1]), int(match[2]), int(match[3]))


@cache
def required_version(go_mod: Path, module: str) -> Version:
    """Return the version of `module` that `go_mod` requires.

    A pseudo-version's line names the tag of that commit in a comment: `v4.0.0-20260115033456-f47bc2d6f199 // v4.25.0`.

    Raises:
        ToolchainError: no such requirement, or a pseudo-version without that comment.
    """
    pattern = re.compile(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)(?:\s*//\s*(v\d\S*))?", re.MULTILINE)
    match = pattern.search(go_mod.read_text(encoding="utf-8"))
    version = parse_version(match[2] or match[1]) if match else None
    if version is None:
        raise ToolchainError(f"{go_mod} requires no release of {module}. Fix: add it, or its tag as a comment")
    return version


def go_version(go_mod: Path) -> Version:
    """Return the oldest Go that may build this module graph, from its `go` line."""
    match = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", go_mod.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ToolchainError(f"{go_mod} has no go line")
    return Version(int(match[1]), int(match[2]), int(match[3] or 0))
