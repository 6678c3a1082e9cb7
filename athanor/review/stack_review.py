"""All findings about the preview of one stack, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from athanor.review.capacity import Capacity, capacity
from athanor.review.changes import Change, Kind, changes, counted, is_secret
from athanor.review.monitoring import Names, alerts, dashboards
from athanor.review.stakes import Stake, stakes
from athanor.review.values import Masker

if TYPE_CHECKING:
    from athanor.review.preview import Preview
    from athanor.review.prices import Prices
    from athanor.review.running_work import Running, Work


@dataclass(frozen=True)
class StackReview:
    """The facts about one stack for its reviewer."""

    preview: Preview
    prices: Prices
    running: Running | str
    """Running workloads of its cluster, or why they are not known, such as "not asked"."""
    masker: Masker

    @cached_property
    def changes(self) -> list[Change]:
        """All changes, in order."""
        return changes(self.preview, self.masker)

    @cached_property
    def counts(self) -> dict[Kind, int]:
        """Resources by kind of change."""
        return counted(self.changes)

    @cached_property
    def stakes(self) -> list[tuple[Stake, list[Work] | None]]:
        """Changes that cost running work or data, with the work that they stop; None where that is not known."""
        all_stakes = stakes(self.changes)
        if isinstance(self.running, str):
            return [(stake, None) for stake in all_stakes]
        return [(stake, self.running.stopped_by(stake)) for stake in all_stakes]

    @property
    def destructive(self) -> bool:
        """Whether anything at stake is lost; a job that is known to have ended is not at stake.

        A pool that shrinks only costs what is known to run there: its nodes may be idle.
        """
        return any(
            not (stake.thing == "job" and work == [])
            and (stake.is_certain or work or (work is None and stake.thing != "node pool"))
            for stake, work in self.stakes
        )

    @cached_property
    def capacity(self) -> Capacity:
        """Nodes, GPUs and money."""
        return capacity(self.changes, self.prices)

    @cached_property
    def alerts(self) -> Names:
        """Alerts that differ."""
        return alerts(self.changes)

    @cached_property
    def dashboards(self) -> Names:
        """Dashboards that differ."""
        return dashboards(self.changes)


def stack_review(preview: Preview, prices: Prices, running: Running | str) -> StackReview:
    """Return the review of a preview; secrets of all of its resources are known before any text is written."""
    masker = Masker()
    for step in preview.steps:
        for state in (step.old, step.new):
            if state is not None:
                masker.learn(state.inputs, state.outputs, secret_manifest=is_secret(step.urn))
    return StackReview(preview, prices, running, masker)
