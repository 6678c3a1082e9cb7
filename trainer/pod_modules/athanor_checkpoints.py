"""Checkpoints of any program: whole or not there, the latest valid one found again, and what continues exactly from it.

A checkpoint is a folder with `complete.json`, which is written last: version 1 of the trainer's format
(trainer/pytorch/checkpoints/manifest.py), with the size of each file.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import sys
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import athanor_ranks as ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_MARKER = "complete.json"
_FORMAT_VERSION = 1
_NOTHING = object()


class Checkpoints:
    """The checkpoints in one folder, each of one step."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        """Look into no folder yet, and create none.

        Args:
            folder: On a volume that outlives the pod, which all ranks see.
            keep: How many of those that `save` wrote are kept.

        Raises:
            ValueError: fewer than one.
        """
        if keep < 1:
            raise ValueError(f"keep={keep}: must be at least 1, or nothing is left to continue from")
        self.folder, self._keep = folder, keep

    def latest(self, pattern: str = "step-*") -> Path | None:
        """Return the folder of the valid checkpoint with the latest step; None without one.

        Args:
            pattern: Of the folders' names; by default those that `save` writes.
        """
        valid = [(step_of(path) or 0, path) for path in self.folder.glob(pattern) if is_valid(path)]
        return max(valid)[1] if valid else None

    def save(
        self, step: int, write: Callable[[Path], object], *, every_rank: bool = False, batches: Sequence[Batches] = ()
    ) -> None:
        """Write a checkpoint: under its name it is whole, after a crash at any time. Every rank calls this.

        Args:
            step: Steps done.
            write: Writes files into the folder that it gets.
            every_rank: Whether each rank calls `write`, as where parameters are sharded, or rank 0 alone.
            batches: Data that is to continue; random numbers always do.

        Raises:
            OSError: the volume cannot be written or is full; earlier checkpoints are untouched.
        """
        target = self.folder / f"step-{step:08d}"
        partial = target.with_name(f".{target.name}.partial")
        if ranks.rank() == 0:
            partial.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(self.folder)
            partial.mkdir()
        ranks.wait_for_all()
        save_state(partial, batches)
        if every_rank or ranks.rank() == 0:
            write(partial)
        complete(partial, step)
        if ranks.rank() == 0:
            _remove(target)  # of an earlier course of the run, which went back since
            partial.rename(target)
            _fsync(self.folder)
            for path in sorted(filter(is_valid, self.folder.glob("step-*")))[: -self._keep]:
                _remove(path)
        ranks.wait_for_all()


def complete(folder: Path, step: int) -> None:
    """Make a checkpoint valid whose files are written: they are forced to disk, then the marker; every rank calls this.

    Raises:
        OSError: the volume cannot be written or is full.
    """
    for path in [*_files(folder), *(path for path in folder.rglob("*") if path.is_dir()), folder]:
        with suppress(FileNotFoundError):  # another rank has renamed it since
            _fsync(path)
    ranks.wait_for_all()
    if ranks.rank() == 0:
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in _files(folder)}
        document = {
            "format_version": _FORMAT_VERSION, "step": step, "world_size": ranks.world_size(), "settings": {},
            "files": sizes,
        }  # fmt: skip
        temporary = folder / f".{_MARKER}.tmp"
        temporary.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        _fsync(temporary)
        temporary.replace(folder / _MARKER)
        _fsync(folder)


def invalidate(folder: Path) -> None:
    """Take the marker from a checkpoint that will be written again, if it has one."""
    if ranks.rank() == 0:
        with suppress(FileNotFoundError):
            (folder / _MARKER).unlink()


def is_valid(folder: Path) -> bool:
    """Return whether a checkpoint was finished, and its files still have their sizes."""
    marker = _marker(folder)
    try:
        return bool(marker) and all((folder / name).stat().st_size == size for name, size in marker["files"].items())
    except (OSError, KeyError, AttributeError):
        return False


def saved_at(folder: Path) -> float | None:
    """Return when a checkpoint became valid, Unix time in seconds; None for one that is not."""
    with suppress(OSError):
        return (folder / _MARKER).stat().st_mtime
    return None


def step_of(folder: Path) -> int | None:
    """Return the steps done at a checkpoint; None without a marker that can be read."""
    step = _marker(folder).get("step")
    return step if isinstance(step, int) else None


def save_state(folder: Path, batches: Sequence[Batches] = ()) -> None:
    """Write what a rank needs besides the model to continue exactly: its random numbers, and where its data is."""
    state = {
        "world_size": ranks.world_size(),
        "random": random_state(),
        "batches": [each.state_dict() for each in batches],
    }
    (folder / _state_file()).write_text(json.dumps(state), encoding="utf-8")


def restore_state(folder: Path, batches: Sequence[Batches] = ()) -> None:
    """Continue from what `save_state` wrote; with another number of ranks, neither numbers nor data are the same."""
    try:
        state = json.loads((folder / _state_file()).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    if state["world_size"] == ranks.world_size():
        set_random_state(state["random"])
        for each, saved in zip(batches, state["batches"]):  # noqa: B905 - of Python 3.10
            each.load_state_dict(saved)


class Batches:
    """A data loader that continues: after a restart it gives the batches that come next, in the order that they had.

    Lightning saves and loads its state as that of any loader that can be resumed.
    """

    def __init__(self, loader: Any) -> None:  # noqa: ANN401 - any iterable
        """Wrap a loader, such as torch's DataLoader, that shuffles by the random numbers of torch, NumPy or Python."""
        self._loader = loader
        self._state: dict[str, Any] = {}
        self._is_resumed = False
        self._epoch = -1

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch: after a restart the rest of it, or the next one if nothing is left."""
        if self._is_resumed:
            self._is_resumed = False
            rest = self._rest()
            if rest is not None:
                yield from self._counted(rest)
                return
        self._epoch += 1
        self._set_epoch()
        self._state = {"epoch": self._epoch, "random": random_state(), "done": 0}
        yield from self._counted(iter(self._loader))

    def _rest(self) -> Iterator[Any] | None:
        """Return the batches of the epoch that are left; None if none are. Those before them are read once more."""
        now = random_state()
        self._set_epoch()
        set_random_state(self._state["random"])
        iterator = iter(self._loader)
        try:
            for _ in range(self._state["done"]):
                next(iterator)
        except StopIteration:
            return None
        finally:
            set_random_state(now)
        following = next(iterator, _NOTHING)
        return None if following is _NOTHING else chain([following], iterator)

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._state["done"] += 1
            yield batch

    def _set_epoch(self) -> None:
        for each in (self._loader, getattr(self._loader, "sampler", None)):
            set_epoch: Any = getattr(each, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(self._epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the data is: JSON values."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue there with the next iteration."""
        self._state, self._is_resumed, self._epoch = dict(state), bool(state), state.get("epoch", -1)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the loader has, such as its sampler
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


def random_state() -> dict[str, Any]:
    """Return the state of Python's random numbers and of NumPy's and torch's, if imported: JSON values."""
    state: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        name, keys, *position = numpy.random.get_state()
        state["numpy"] = [name, keys.tolist(), *position]
    if torch is not None:
        state["torch"] = _text(torch.get_rng_state())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = _text(torch.cuda.get_rng_state())
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Continue the random numbers of a `random_state`, of those packages that are imported now."""
    version, numbers, following = state["python"]
    random.setstate((version, tuple(numbers), following))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(tuple(state["numpy"]))
    if torch is not None and "torch" in state:
        torch.set_rng_state(_tensor(torch, state["torch"]))
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(_tensor(torch, state["cuda"]))


def _text(tensor: Any) -> str:  # noqa: ANN401 - a torch.Tensor of bytes
    return base64.b64encode(bytes(tensor.tolist())).decode("ascii")


def _tensor(torch: Any, text: str) -> Any:  # noqa: ANN401 - as above
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)


def _state_file() -> str:
    return f"athanor-rank-{ranks.rank():05d}.json"


def _marker(folder: Path) -> dict[str, Any]:
    try:
        document = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _files(folder: Path) -> list[Path]:
    own = {folder / _MARKER, folder / f".{_MARKER}.tmp"}
    return [path for path in folder.rglob("*") if path.is_file() and path not in own]


def _remove_leftovers(folder: Path) -> None:
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove a checkpoint. It loses its name first: what a kill in between leaves must not count."""
    removed = folder.with_name(f".{folder.name}.removed")
    with suppress(FileNotFoundError):
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
