"""Liveness probe of a training pod: `python3 -m trainer.heartbeat`; status 1 when a rank is stuck, else 0.

It imports no framework: a kubelet runs it every minute next to the training.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trainer.common import command_line
from trainer.common.validation import at_least
from trainer.pytorch.heartbeat import stuck


@dataclass(frozen=True, kw_only=True)
class HeartbeatConfig:
    """Say whether a rank of this pod has stood still for longer than it may."""

    work_dir: Path = Path(tempfile.gettempdir()) / "athanor"
    """The --work_dir of the training."""
    grace_seconds: float = 60
    """Time beyond the limit of what a rank does, in which the training ends by itself and says why."""

    def __post_init__(self) -> None:
        at_least("grace_seconds", self.grace_seconds, 0)


def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: 1 when a rank is stuck, 2 for wrong arguments.
    """
    config = command_line.parse(HeartbeatConfig, "trainer.heartbeat")
    if reasons := stuck(config.work_dir, config.grace_seconds):
        sys.exit("\n".join(reasons))


if __name__ == "__main__":
    main()
