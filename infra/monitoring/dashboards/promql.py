"""PromQL fragments that several dashboards share."""

from __future__ import annotations

PODS_OF_NAMESPACE = 'namespace="$namespace"'
WORKLOAD = 'namespace="$namespace", workload="$workload"'
"""Matchers of the series of the chosen workload."""
NOT_ROOT = 'queue_name!="root"'
"""Matcher of queues: Volcano counts root, the parent of all queues, as one of them."""


def of_pods(expr: str, *labels: str) -> str:
    """Return a value per pod of the chosen workload from one per pod, with some labels of the workload's.

    Args:
        expr: Yields one series for each namespace and pod.
        labels: Of `namespace_pod:workload:info`.
    """
    # Two series of one pod overlap for minutes after it was created again on another node: one has to be taken.
    kept = ", ".join(("namespace", "pod", *labels))
    joined = ", ".join(labels)
    info = f"max by ({kept}) (namespace_pod:workload:info{{{WORKLOAD}}})"
    return f"({expr}) * on (namespace, pod) group_left ({joined}) {info}"


def rate(counter: str, matchers: str = WORKLOAD) -> str:
    """Return a counter's increase per second."""
    return f"rate({counter}{{{matchers}}}[$__rate_interval])"


def increase(counter: str, matchers: str = WORKLOAD) -> str:
    """Return by how much a counter grew since the point before."""
    return f"increase({counter}{{{matchers}}}[$__rate_interval])"


def mean(histogram: str, by: str, matchers: str = WORKLOAD) -> str:
    """Return the mean of a histogram's or a summary's values."""
    return (
        f"sum by ({by}) ({rate(f'{histogram}_sum', matchers)}) / sum by ({by}) ({rate(f'{histogram}_count', matchers)})"
    )


def quantile(level: float, histogram: str, by: str = "", matchers: str = WORKLOAD) -> str:
    """Return a quantile of a histogram's values."""
    labels = ", ".join(label for label in ("le", by) if label)
    return f"histogram_quantile({level}, sum by ({labels}) ({rate(f'{histogram}_bucket', matchers)}))"


def most(count: int, expr: str) -> str:
    """Return the highest series alone: a panel of a thousand lines answers nothing."""
    return f"topk({count}, {expr})"
