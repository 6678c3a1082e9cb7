"""Folders of athanor on this machine, outside the repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.machine import cache_folder, home_folder

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
    return Paths(cache=cache_folder(), home=home_folder())
