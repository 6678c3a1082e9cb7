"""The saved state of a cluster between runs: one JSON file that is replaced atomically."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from tools.files import write_atomically
from tools.local_cluster.layout import Network

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class State:
    """Facts that cannot be read from the machine."""

    block: str
    """The cluster's private address block, in CIDR notation."""
    control_plane: str | None = None
    """Digest of the configuration that kwokctl made the control plane with; None until it was made completely."""
    configuration: str | None = None
    """Digest of everything that the last complete `up` configured; None until the first."""
    binaries: dict[str, str] = field(default_factory=dict[str, str])
    """The programs of the last `up`, by tool name."""

    @property
    def network(self) -> Network:
        """The cluster's addresses."""
        return Network(IPv4Network(self.block))


def load(file: Path) -> State | None:
    """Return the stored state, or None where there is none that can be read (an interrupted first start)."""
    try:
        return State(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def save(file: Path, state: State) -> None:
    """Replace the stored state."""
    write_atomically(file, json.dumps(asdict(state), indent=1))


def digest(content: object) -> str:
    """Return a short digest of content that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
