"""Two-way synchronisation of two folders, in rounds and without losing data.

A change is a difference from the last state in which both were equal. A file that changed on one side is copied to the
other; of a file that changed on both, this machine's version stays, and the pod's is kept next to it under another
name.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from athanor.dev.tree import CHANGED, LINK, kind_of
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from athanor.dev.not_copied import LeftAlone


class Side(Protocol):
    """A folder, here or in a pod."""

    def scan(self, listed: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
        """Return the states of its files by their paths, and why others that are there are not copied.

        Args:
            listed: Files that the other side has.
        """
        ...

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content or where a link leads, and its kind; None if it is gone or not copied by now."""
        ...

    def write(self, name: str, content: bytes, was: str | None, *, kind: str) -> str:
        """Write a file or a link if it is what it was; return why not, empty if it was."""
        ...

    def delete(self, name: str, was: str) -> bool:
        """Delete a file if it is what it was; return whether it was."""
        ...


class Own(Side, Protocol):
    """The folder of this machine, whose rules count."""

    def may_arrive(self, name: str) -> bool:
        """Return whether a new file of the pod belongs here: not one that the ignore files name."""
        ...

    def why_not(self, name: str, state: str, former: str | None) -> str:
        """Return why what the pod has created or changed, and may arrive, cannot come here; empty if it can."""
        ...


@dataclass(kw_only=True)
class Sync:
    """A folder here and one there."""

    here: Own
    there: Side
    file: Path
    """File with the last equal state, so that a deletion is not taken for a new file after a restart."""
    say: Callable[[str], None]
    left: LeftAlone
    """Files that exist and are not copied."""
    _equal: dict[str, str] = field(default_factory=dict[str, str])
    _sent: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Files that the last round began to copy to the pod: found there after a kill, the pod did not change it."""
    differing: tuple[str, ...] = ()
    """Names that the last round found, and left, different; those that are left alone do not count."""
    _stuck: dict[str, str] = field(default_factory=dict[str, str])
    """Reasons why files cannot be copied, also by later rounds; each reason is said once."""

    def __post_init__(self) -> None:
        """Read the last equal state."""
        try:
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self._equal, self._sent = kept["equal"], kept["sent"]
        except (OSError, ValueError, KeyError, TypeError):
            self._equal = {}

    def compare(self) -> tuple[str, ...]:
        """Return the names that differ, and change nothing; what is left alone is not among them.

        Raises:
            OSError: the pod does not answer.
        """
        here, there = self._looked()
        return tuple(sorted(n for n in {*here, *there} if n not in self.left and here.get(n) != there.get(n)))

    def once(self) -> int:
        """Sync both, as far as nobody changes them meanwhile; return how many files were copied or deleted.

        Raises:
            RefusalError: all files here are gone, as when a disk is not there.
            OSError: a file cannot be written, or the pod does not answer.
        """
        here, there = self._looked()
        names = sorted(name for name in {*here, *there, *self._equal} if name not in self.left)
        if all(here.get(name) == there.get(name) == self._equal.get(name) for name in names):
            self._sent = {}  # all of it arrived: what the pod takes back from now on, it changes
            self.differing = ()
            return 0
        self._sent = {
            name: [*self._known_there(name, there.get(name)), here[name]]
            for name in names
            if name in here and there.get(name) != here[name]
        }
        self._keep()
        try:
            # Deletions first: what is deleted may be in the way of what is new, a folder of a file.
            names.sort(key=lambda name: name not in self._equal or (name in here and name in there))
            done = {name for name in names if self._settle(name, here.get(name), there.get(name))}
            self.differing = tuple(name for name in names if name not in done and here.get(name) != there.get(name))
            return len(done)
        finally:
            self._keep()

    def _looked(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the files of both sides that count, and note what is left alone.

        Raises:
            RefusalError: as `once`.
            OSError: as `once`.
        """
        here, here_left = self.here.scan()
        there, there_left = self.there.scan({*here, *self._equal})
        there = {name: state for name, state in there.items() if name in here or self.here.may_arrive(name)}
        there_left |= {
            name: why
            for name, state in there.items()
            if state not in {here.get(name), self._equal.get(name), *self._sent.get(name, ())}
            and (why := self.here.why_not(name, state, here.get(name, self._equal.get(name))))
        }
        if self._equal and not here and not here_left and there:
            fix = "bring it back, or `athanor dev --stop`, and start again"
            raise RefusalError("folder", ".", "has no files any more; those of the pod are kept", fix)
        if not there and not there_left:
            self._equal = {}  # another pod, with an empty volume: it gets everything
        self.left.note(here_left, there_left, {*here, *self._equal})
        return here, there

    def _settle(self, name: str, here: str | None, there: str | None) -> bool:
        was = self._equal.get(name)
        if here == there:
            self._note(name, here)
            return False
        if there == was or self._known_there(name, there):
            return self._to(self.there, self.here, name, here, there)
        if here == was:
            return self._to(self.here, self.there, name, there, here)
        # Both changed it: a change counts more than a deletion.
        if there is None:
            return self._to(self.there, self.here, name, here, there)
        if here is None:
            return self._to(self.here, self.there, name, there, here)
        return self._keep_both(name, here, there)

    def _known_there(self, name: str, there: str | None) -> list[str]:
        """Return the state of a file in the pod if a round that was cut off put it there; also across rounds."""
        return [there] if there is not None and there in self._sent.get(name, []) else []

    def _to(self, target: Side, source: Side, name: str, new: str | None, old: str | None) -> bool:
        """Copy one side's state to the other; files that changed since they were seen wait for the next round."""
        if new is None:
            done = old is None or target.delete(name, old)
            word = "deleted"
        else:
            done = self._copy(target, source, name, (old, new))
            word = "copied"
        if done:
            self._note(name, new)
            self.say(f"{word} {'here' if target is self.here else 'to the pod'}: {name}")
        return done

    def _copy(self, target: Side, source: Side, name: str, states: tuple[str | None, str]) -> bool:
        old, new = states
        read = _read(source, name, new)
        if read is None:
            return False
        why_not = target.write(name, read[0], old, kind=read[1])
        if why_not in {"", CHANGED}:
            self._stuck.pop(name, None)
        elif self._stuck.get(name) != why_not:
            self._stuck[name] = why_not
            self.say(f"not copied ({why_not} {'here' if target is self.here else 'in the pod'}): {name}")
        return not why_not

    def _keep_both(self, name: str, here: str, there: str) -> bool:
        theirs = _read(self.there, name, there)
        if theirs is None:
            return False
        other = _conflict_name(name)
        if self.here.write(other, theirs[0], None, kind=theirs[1]):
            return False
        self.say(f"changed on both sides: {name}; the pod's is {other}")
        return self._to(self.there, self.here, name, here, there)

    def _note(self, name: str, state: str | None) -> None:
        if state is None:
            self._equal.pop(name, None)
        else:
            self._equal[name] = state

    def _keep(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"equal": self._equal, "sent": self._sent}), encoding="utf-8")
        new.replace(self.file)


def _read(source: Side, name: str, state: str) -> tuple[bytes, str] | None:
    """Return what `Side.read` does; None also if its kind is not the one that was judged: a pod may say anything."""
    read = source.read(name)
    if read is None or read[1] != kind_of(state) or (read[1] == LINK and LINK + os.fsdecode(read[0]) != state):
        return None
    return read


def _conflict_name(name: str) -> str:
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem}.conflict-{time.time_ns()}{path.suffix}"))
