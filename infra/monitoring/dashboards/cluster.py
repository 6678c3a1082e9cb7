"""The dashboard of the cluster and its GPUs: availability, use and health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.dashboards import gpu_fleet, nodes, platform_parts
from infra.monitoring.dashboards.board import Board, Section
from infra.monitoring.dashboards.panels import ONE_RATIO, Limits, Look, Text, number
from infra.monitoring.rules.gpu import BUSY_DEVICES

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import AlertThresholds

UID = "athanor-cluster"
_NONE_IS_GOOD = Look(limits=Limits(doubtful=1, bad=1))


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Cluster and GPUs",
        about="Whether the nodes, the GPUs and the platform's own components are available, used and healthy.",
        sections=(
            _now(),
            gpu_fleet.use(),
            gpu_fleet.health(thresholds.gpu),
            nodes.section(thresholds.storage),
            platform_parts.platform(),
            platform_parts.logs(),
        ),
    )


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            _nodes_ready(),
            _nodes_not_ready(),
            _gpus(),
            _gpus_allocated(),
            _gpus_busy(),
            _alerts_firing(),
        ),
    )


def _nodes_ready() -> Panel:
    return number(
        "Nodes ready",
        'sum(kube_node_status_condition{condition="Ready", status="true"})',
        Text(asks="How many nodes can run pods?", when_bad="Run kubectl get nodes, and see the next panel."),
    )


def _nodes_not_ready() -> Panel:
    return number(
        "Nodes not ready",
        'sum(kube_node_status_condition{condition="Ready", status=~"false|unknown"})',
        Text(
            asks="How many nodes are not ready?",
            when_bad="kubectl describe node shows since when and why; see the runbook NodeNotReady.",
        ),
        _NONE_IS_GOOD,
    )


def _gpus() -> Panel:
    return number(
        "GPUs",
        "sum(node:gpus_allocatable:sum)",
        Text(
            asks="How many GPUs can pods request?",
            when_bad="Fewer than you pay for: a node is missing, or its device plugin detects only some of its GPUs.",
        ),
    )


def _gpus_allocated() -> Panel:
    return number(
        "GPUs allocated",
        "sum(node:gpus_allocated:sum) / sum(node:gpus_allocatable:sum)",
        Text(
            asks="What share of the GPUs is allocated to pods?",
            when_bad="Low while jobs wait: the Queues dashboard shows what they wait for.",
        ),
        ONE_RATIO,
    )


def _gpus_busy() -> Panel:
    return number(
        "GPUs busy",
        f"avg({BUSY_DEVICES})",
        Text(
            asks="What share of the time do the GPUs compute, including those that are not allocated?",
            when_bad="Compare it with the allocated share: there are either too few jobs, or their GPUs are idle.",
        ),
        ONE_RATIO,
    )


def _alerts_firing() -> Panel:
    return number(
        "Alerts firing",
        'count(ALERTS{alertstate="firing"}) or vector(0)',
        Text(asks="How many alerts are firing?", when_bad="The table of alerts below lists them."),
        _NONE_IS_GOOD,
    )
