"""The record of a run's commit, by which all pods of a job run the same one.

A branch may move between the clones of two pods. So the first pod that has its files links its record to the shared
name, which succeeds for exactly one; all other pods, and a pod that restarts days later, take the commit from there.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trainer.common.files import fsync_directory, read_json, write_json_atomically
from trainer.source.config import COMMIT_PATTERN
from trainer.source.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.source.config import SourceConfig


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of what was fetched."""

    repository: str
    requested: dict[str, str]
    """branch, tag or commit, as the job asked for it."""
    commit: str
    """40 hex digits."""
    time: str
    """Time when the first pod fetched it: RFC 3339, UTC."""

    def document(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            "commit": self.commit,
            "repository": self.repository,
            "requested": self.requested,
            "time": self.time,
        }


def new_record(config: SourceConfig, commit: str) -> Record:
    """Return the record of a commit that was just fetched."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(repository=config.repository, requested=config.requested, commit=commit, time=now)


def read_record(path: Path, config: SourceConfig) -> Record | None:
    """Return the record of an earlier fetch by a pod of this job, None if there is none.

    Raises:
        SourceError: the file is broken, or belongs to another repository, branch, tag or commit.
    """
    if not path.exists():
        return None
    stored = read_json(path) or {}
    commit = stored.get("commit")
    if not isinstance(commit, str) or not COMMIT_PATTERN.fullmatch(commit):
        raise SourceError(f"{path}: is not a record of fetched code. Fix: remove it, or name another file as record")
    expected = {"repository": config.repository, "requested": config.requested}
    belongs = all(stored.get(key) == value for key, value in expected.items())
    if not belongs or config.commit not in {None, commit}:
        raise SourceError(
            f"{path}: records {stored.get('requested')} of {stored.get('repository')}, this job asks for "
            f"{config.requested} of {config.repository}. Fix: a record of its own for each job"
        )
    return Record(repository=config.repository, requested=config.requested, commit=commit, time=str(stored.get("time")))


def publish(path: Path, record: Record, config: SourceConfig) -> Record:
    """Write the record unless a pod was faster, and return the one that counts.

    Raises:
        SourceError: what is there belongs to another job, or the volume has no hard links.
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.link")
    write_json_atomically(temporary, record.document())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except (PermissionError, OSError) as error:
        if config.commit is None:
            raise SourceError(
                f"{path}: cannot be linked: {error.strerror}. "
                "Fix: a volume with hard links (NFS has them), or name a commit instead of a branch or tag"
            ) from error
        # All pods write the same commit: it does not matter which record stays.
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)
    counts = read_record(path, config)
    if counts is None:
        raise SourceError(f"{path}: is gone again. Fix: see what removes files there")
    return counts
