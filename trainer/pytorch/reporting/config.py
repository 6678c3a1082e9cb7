"""Options of a run's reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.common.validation import SettingsError, at_least, between

_MOST_RECORDED = 100
"""Steps of a trace: a larger one takes minutes to write, in which all ranks wait, and no viewer opens it."""


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

    def without_effect(self, total_steps: int) -> list[str]:
        """Say what does not do what it is for in a run of so many steps, and the fix."""
        interval = self.straggler_interval_steps
        if interval <= total_steps or interval == StragglerConfig.straggler_interval_steps:
            return []
        limit, fix = f"the run has {total_steps} steps", f"at most {total_steps}, or 0"
        return [f"straggler_interval_steps={interval}: {limit}: ranks are never compared. Fix: {fix}"]


@dataclass(frozen=True, kw_only=True)
class ProfileConfig:
    """Which steps are recorded with torch's profiler."""

    profile_steps: int = 0
    """Record so many steps; 0 records none."""
    profile_start_step: int = 10
    """First recorded step of the run. A run that resumes later than two steps before it records none."""
    profile_ranks: tuple[int, ...] = (0,)
    """Ranks that record; the first of them also prints the costliest operators."""

    def __post_init__(self) -> None:
        between("profile_steps", self.profile_steps, 0, _MOST_RECORDED)
        # the first step of a process loads kernels, the next one sets up the profiler
        at_least("profile_start_step", self.profile_start_step, 3)
        for rank in self.profile_ranks:
            at_least("profile_ranks", rank, 0)
        if self.profile_steps and not self.profile_ranks:
            raise ValueError(f"profile_ranks=(): nobody records the {self.profile_steps} steps. Fix: name a rank, or 0")

    def check_length(self, total_steps: int) -> None:
        """Refuse a window after the end of a run of so many steps.

        Raises:
            SettingsError: naming the steps of the run.
        """
        if self.profile_steps and self.profile_start_step > total_steps:
            limit = f"the run has {total_steps} steps"
            raise SettingsError(f"profile_start_step={self.profile_start_step}: {limit}. Fix: an earlier step")

    def writes_around(self, step: int) -> bool:
        """Whether some rank may write its trace during this step: it ends the last one, the others wait in the next."""
        last = self.profile_start_step + self.profile_steps - 1
        return self.profile_steps > 0 and last <= step <= last + 1

    def without_effect(self, world_size: int) -> list[str]:
        """Say which ranks a run of so many ranks does not have; an elastic job may have had them before."""
        missing = [str(rank) for rank in self.profile_ranks if rank >= world_size]
        if not self.profile_steps or not missing:
            return []
        limit, fix = f"the ranks are 0 to {world_size - 1}", f"at most {world_size - 1}"
        return [f"profile_ranks={' '.join(missing)}: {limit}: nobody records there. Fix: {fix}"]


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """All that a run reports besides its steps."""

    stragglers: StragglerConfig = field(default_factory=StragglerConfig)
    profile: ProfileConfig = field(default_factory=ProfileConfig)
