"""The destination folder of the code: taken over from a killed attempt, and filled atomically at the end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from trainer.source.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

OWN_FOLDER = ".athanor-source"
"""Folder in the destination that says that this program wrote its content, and holds the attempt under way."""


class Destination:
    """A folder, usually a volume's top: so it cannot be replaced as a whole, and is marked as ours before anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / OWN_FOLDER
        self.objects = self.own / "objects"
        self.tree = self.own / "tree"
        self.record = self.own / "source.json"

    def start_over(self) -> None:
        """Remove what an earlier attempt left, finished or not, and make room for a new one.

        Raises:
            SourceError: it contains something that this program did not write.
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in self.folder.iterdir())
        if names and (self.own.is_symlink() or not self.own.is_dir()):
            raise SourceError(
                f"destination={str(self.folder)!r}: holds {names[0]!r} and {len(names) - 1} more; must be empty. "
                "Fix: mount an emptyDir there"
            )
        # The mark goes last: a kill in between must leave what the next attempt takes for ours.
        for path in (*(path for path in self.folder.iterdir() if path != self.own), *_children(self.own)):
            _remove(path)
        self.own.mkdir(exist_ok=True)
        self.objects.mkdir()
        self.tree.mkdir()

    def complete(self) -> None:
        """Move the files of the attempt to where they are wanted.

        Raises:
            SourceError: the repository has a file named like our mark.
        """
        if (self.tree / OWN_FOLDER).exists():
            raise SourceError(f"{OWN_FOLDER!r}: this name is taken by the program. Fix: rename it in the repository")
        for path in self.tree.iterdir():
            path.rename(self.folder / path.name)
        self.tree.rmdir()
        shutil.rmtree(self.objects)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
