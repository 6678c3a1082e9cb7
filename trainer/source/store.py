"""The store of fetched objects on a shared volume: one pod of a job fetches, the others check out from it.

Its content is only trusted as far as its hashes go: every pod proves the files up to the commit of the record.
"""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Store:
    """A folder with an object store for each commit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def objects(self, commit: str) -> Path | None:
        """Return the object store of a commit, None as long as there is none."""
        place = self._place(commit)
        return place if place.is_dir() else None

    def keep(self, objects: Path, commit: str) -> None:
        """Copy a commit's objects here; they appear at once or not at all, and replace broken ones.

        Raises:
            OSError: the volume is full or not writable.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        new, old = self._folder / f".{mark}.new", self._folder / f".{mark}.old"
        try:
            shutil.copytree(objects, new)
            if self.objects(commit):
                self._place(commit).rename(old)
            new.rename(self._place(commit))
        finally:
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)

    def _place(self, commit: str) -> Path:
        return self._folder / commit
