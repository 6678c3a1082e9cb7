"""Rules about nodes and the platform's own pods. Metrics: kube-state-metrics, docs/metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra import job_cleanup, volcano
from infra.gpu import nodes as gpu
from infra.monitoring import KUBELET_NAMESPACE, NAMESPACE, NODE_NAMESPACE
from infra.monitoring.rules.rule import Alert, Area
from infra.namespaces import GATEWAY_NAMESPACE

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import NodeThresholds

PLATFORM_NAMESPACES = (
    KUBELET_NAMESPACE,
    volcano.NAMESPACE,
    gpu.NAMESPACE,
    GATEWAY_NAMESPACE,
    job_cleanup.NAMESPACE,
    NAMESPACE,
    NODE_NAMESPACE,
)


def area(limits: NodeThresholds) -> Area:
    """Return the rules of nodes."""
    crashing = f'reason="CrashLoopBackOff", namespace=~"{"|".join(PLATFORM_NAMESPACES)}"'
    return Area(
        name="nodes",
        alerts=(
            Alert(
                name="NodeNotReady",
                expr='max by (node) (kube_node_status_condition{condition="Ready", status="true"}) == 0',
                for_seconds=limits.not_ready_for_seconds,
                severity="page",
                summary="Node {{ $labels.node }} is not ready",
                description="Its pods are lost; jobs restart on other nodes if there is room. `kubectl describe node` "
                "shows why.",
            ),
            Alert(
                name="NodeUnderPressure",
                expr="""
                    max by (node, condition) (
                      kube_node_status_condition{condition=~"MemoryPressure|DiskPressure|PIDPressure", status="true"}
                    ) == 1""",
                for_seconds=limits.pressure_for_seconds,
                severity="ticket",
                summary="Node {{ $labels.node }} reports {{ $labels.condition }}",
                description="It accepts no new pods and evicts running ones. Free memory, disk space or processes on "
                "it.",
            ),
            Alert(
                name="PlatformPodCrashLooping",
                # Between two crashes, the container runs for a moment and is not waiting.
                expr=f"""
                    max by (namespace, pod, container) (
                      max_over_time(kube_pod_container_status_waiting_reason{{{crashing}}}[5m])
                    ) == 1""",
                for_seconds=limits.crash_loop_for_seconds,
                severity="page",
                summary="{{ $labels.namespace }}/{{ $labels.pod }} is in a crash loop",
                description="A component of the platform does not work: jobs may not start, or go unmonitored. Read "
                "its logs.",
            ),
        ),
    )
