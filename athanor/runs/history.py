"""A local cache of the last known state of runs, one file each: reading a stack takes the engine a second.

It also outlives a deleted job. Lost entries are read again, as far as the stacks and the cluster still have them. Only
commands that read trust the cache: commands that change a run ask its stack.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from athanor.runs.backend import data_folder


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A run as it was seen last."""

    updated: str = ""
    """Time of the last update of its stack, as the backend writes it: another time is another run, or another start of
    it. Empty if this machine has just started it."""
    outputs: dict[str, str]
    """Outputs that the run recorded."""
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    """State of its job; empty before it was seen."""
    step: int | None = None
    latest: dict[str, float] = field(default_factory=dict[str, float])
    """The numbers that it printed last, by their names."""
    settings: dict[str, object] = field(default_factory=dict[str, object])
    """The hyperparameters that it printed, by their names."""

    @classmethod
    def of(cls, name: str, updated: str) -> Self | None:
        """Return the record of a run since an update of its stack; None if there is none."""
        seen = cls.last(name)
        return replace(seen, updated=updated) if seen and seen.updated in {"", updated} else None

    @classmethod
    def last(cls, name: str) -> Self | None:
        """Return the last record of a run, whatever happened to its stack since; None if there is none."""
        try:
            return cls(**json.loads(_file(name).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def keep(self, name: str) -> None:
        """Replace what was seen of a run, whole or not at all; on a full disk, not at all."""
        file = _file(name)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as new:
                try:
                    json.dump(asdict(self), new)
                    new.close()
                    Path(new.name).replace(file)
                except OSError:
                    Path(new.name).unlink()
                    raise


def forget(name: str) -> None:
    """Remove what was seen of a run."""
    _file(name).unlink(missing_ok=True)


def _file(name: str) -> Path:
    return data_folder(os.environ) / "seen" / f"{name}.json"
