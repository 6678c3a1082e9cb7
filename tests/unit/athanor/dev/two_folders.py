"""What tests do with two folders that are kept equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.dev.not_copied import LeftAlone
from athanor.dev.sides import OwnFolder, PodFolder
from athanor.dev.sync import Sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def synced(
    here: Path, pod: PodFolder, file: Path, say: Callable[[str], None] = lambda _: None, accepted: Sequence[str] = ()
) -> Sync:
    own = OwnFolder(here, accepted)
    left = LeftAlone(say, own.may_arrive)
    return Sync(here=own, there=pod, file=file, say=say, left=left)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def settle(sync: Sync) -> None:
    for _ in range(20):
        if sync.once() == 0:
            return
    raise AssertionError("it never becomes quiet")
