"""Settings of the activator."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.common.validation import between


@dataclass(frozen=True, kw_only=True)
class ActivatorConfig:
    """Start Deployments that scaled to zero when a request comes, and stop those that nobody asked for a while."""

    namespace: str
    """Namespace of the Deployments."""
    idle_label: str
    """Label of those that are ours: seconds without a request after which one is stopped."""
    hold_label: str
    """Label with the longest time, in seconds, that a request waits for the first pod."""
    host: str = "127.0.0.1"
    """Address both ports listen on; 0.0.0.0 in a pod."""
    port: int = 8080
    """Port that proxies ask; 0 takes a free one, named in the log."""
    metrics_port: int = 8081
    """Port of /metrics for Prometheus; 0 takes a free one, named in the log."""
    look_seconds: float = 1.0
    """Time between two looks at the Deployments; while a request waits, a fifth of it."""

    def __post_init__(self) -> None:
        between("port", self.port, 0, 65535)
        between("metrics_port", self.metrics_port, 0, 65535)
        between("look_seconds", self.look_seconds, 0.01, 60)
