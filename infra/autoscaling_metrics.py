"""Names of autoscaling metrics, shared by the platform's metrics adapter and the autoscalers of services."""

from __future__ import annotations

from typing import Literal

AutoscalingMetric = Literal["cpu", "queue_depth", "latency"]
"""`cpu`: metrics.k8s.io, from a metrics-server or the platform's adapter; the others: custom.metrics.k8s.io, from that
adapter alone."""

QUEUE_METRIC = "nv_inference_pending_request_count"
"""Requests that wait in a pod, as both servers report them: a metric of pods."""
LATENCY_METRIC = "athanor_request_p99_milliseconds"
"""99th percentile of a service's request times, over all its pods: a metric of Services. The thin server's alone:
Triton reports sums."""
