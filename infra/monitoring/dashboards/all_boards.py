"""All dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards import cluster, cost, queues, serving, training_job
from infra.monitoring.dashboards.board import RUNBOOKS, board_json
from infra.settings.alert_thresholds import AlertThresholds

if TYPE_CHECKING:
    from infra.monitoring.dashboards.board import Board


def boards(thresholds: AlertThresholds) -> tuple[Board, ...]:
    """Return the dashboards in the order in which people read them."""
    return (
        cluster.board(thresholds),
        training_job.board(thresholds),
        queues.board(thresholds),
        serving.board(thresholds),
        cost.board(),
    )


def dashboards(
    thresholds: AlertThresholds | None = None, runbook_base_url: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return the JSON of every dashboard by its uid.

    Args:
        thresholds: From which values on alerts fire: panels draw the same. Default: the default settings.
        runbook_base_url: Where browsers find docs/runbooks. Default: a server of the reader's own.
    """
    values = {RUNBOOKS.name: runbook_base_url} if runbook_base_url else {}
    return {board.uid: board_json(board, values) for board in boards(thresholds or AlertThresholds())}
