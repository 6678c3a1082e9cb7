"""What a run reports besides its steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.common.validation import at_least


@dataclass(frozen=True, kw_only=True)
class StragglerConfig:
    """When ranks compare how long they take for their own part of a step."""

    straggler_interval_steps: int = 100
    """Compare after every so many steps; 0 never does."""
    straggler_ratio: float = 1.3
    """Log the slowest rank if it takes so many times as long as the median."""

    def __post_init__(self) -> None:
        at_least("straggler_interval_steps", self.straggler_interval_steps, 0)
        at_least("straggler_ratio", self.straggler_ratio, 1)


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """All that a run reports besides its steps."""

    stragglers: StragglerConfig = field(default_factory=StragglerConfig)
