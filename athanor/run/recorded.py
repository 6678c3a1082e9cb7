"""The arguments of a run as its stack records them, to list and compare runs: text by name, without defaults."""

from __future__ import annotations

import subprocess
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from workloads.local_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from athanor.run.description import Description


def recorded(described: Description) -> dict[str, str]:
    """Return the arguments by name, such as resources.gpus; the code is there as its digest and its commit."""
    commit = commit_of(described.source.path) if described.source else None
    code = {"commit": commit} if commit else {}
    return {"kind": described.kind, **code, **dict(_flat("", described.args))}


def commit_of(folder: str) -> str | None:
    """Return the commit of a folder in a git repository, and whether the folder has other content; None elsewhere."""
    head = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    if head is None or changes is None:
        return None
    return f"{head.strip()} with changes" if changes.strip() else head.strip()


def _git(folder: str, *words: str) -> str | None:
    """Return the output of git; None without git, a repository of the user's own, or a first commit."""
    # A repository's settings may name a program that watches its files; it has no part in this.
    command = ["git", "-C", folder, "--no-optional-locks", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def given(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a description that differ from their defaults."""
    given: dict[str, Any] = {}
    for each in fields(value):
        content = getattr(value, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if content != default:
            given[each.name] = content
    return given


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any dataclass
    for name, content in given(value).items():
        if isinstance(content, LocalFolder):
            yield f"{prefix}{name}", f"sha256 {content.archive.digest[:12]}"
        elif is_dataclass(content):
            yield from _flat(f"{prefix}{name}.", content)
        else:
            yield f"{prefix}{name}", _text(content)


def _text(content: Any) -> str:  # noqa: ANN401 - of any field
    if isinstance(content, tuple):
        return " ".join(str(word) for word in cast("tuple[object, ...]", content))
    if isinstance(content, dict):
        return " ".join(f"{key}={value}" for key, value in sorted(cast("dict[str, object]", content).items()))
    return str(content)
