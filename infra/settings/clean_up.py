"""Settings of the removal of finished jobs' pods."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from infra.settings.fields import Count, Model


class CleanUpSettings(Model):
    """Remove the pods of finished jobs, if the jobs say after how long."""

    enabled: bool = False
    """Whether the pods of jobs are removed `ttl_seconds_after_finished` after the end; without it, no job can set that
    field."""
    interval_minutes: Count = Field(default=10, ge=1, le=60)
    """How often to look for such pods; must divide 60."""

    @model_validator(mode="after")
    def _hours_have_equal_intervals(self) -> Self:
        if 60 % self.interval_minutes:
            raise ValueError(
                f"interval_minutes = {self.interval_minutes}: does not divide 60. Fix: choose one of"
                f" {', '.join(str(each) for each in range(1, 61) if not 60 % each)}"
            )
        return self
