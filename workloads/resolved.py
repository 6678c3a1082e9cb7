"""Inputs of the manifests of a job or service, from its platform and its program, with every Output resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.pods import Claims

if TYPE_CHECKING:
    from infra.platform import ResolvedPlatform


@dataclass(frozen=True, kw_only=True)
class ResolvedWorkload:
    """A service's values; those of a job derive from it."""

    platform: ResolvedPlatform
    owner: str
    """The stack that declares the workload, as in the label athanor.dev/owner."""
    image: str

    @property
    def claims(self) -> Claims:
        """The platform's volumes."""
        return Claims(data=self.platform.data_claim, output=self.platform.output_claim)


@dataclass(frozen=True, kw_only=True)
class ResolvedJob(ResolvedWorkload):
    """A job's values."""

    queue: str
