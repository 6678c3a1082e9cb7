"""Where athanor keeps things on this machine, outside the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Paths:
    """The two folders: what may be deleted at any time, and what `make down` deletes."""

    cache: Path
    """Built tools, downloads and images, keyed by version. Slow to make again, never needed to be kept."""
    home: Path
    """State of the running local environment: cluster, volumes, Pulumi state, passphrase, logs. Mode 0700."""

    @property
    def logs(self) -> Path:
        """Detailed log files of the tools themselves."""
        return self.home / "logs"


def paths() -> Paths:
    """Return the folders: ATHANOR_CACHE and ATHANOR_HOME, else the XDG defaults."""
    cache_root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    state_root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    cache = Path(os.environ.get("ATHANOR_CACHE") or Path(cache_root) / "athanor").resolve()
    home = Path(os.environ.get("ATHANOR_HOME") or Path(state_root) / "athanor").resolve()
    return Paths(cache=cache, home=home)
