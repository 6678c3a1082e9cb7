"""Settings of metrics, alerts, dashboards and logs."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from infra.settings.alert_thresholds import AlertThresholds
from infra.settings.fields import Count, DnsLabel, DnsSubdomain, MemoryQuantity, Model, repeated

_OWN_STACK_ONLY = (
    "alertmanager_config_secret", "alertmanager_storage", "autoscaling", "memory_limit", "replicas", "retention_days",
    "run_webhooks", "storage",
)  # fmt: skip
"""Settings of the Prometheus that only kind `operator` makes."""


class VolumeSettings(Model):
    """Where one part of the monitoring keeps its data."""

    persistent: bool = True
    """Whether the data outlives the pod, on a PersistentVolumeClaim (on the cluster of `make up`: a folder of its
    node)."""
    size_gib: Count = Field(default=20, ge=1, le=32768)
    """Size in GiB; the oldest data is deleted before it is full."""
    storage_class: DnsSubdomain | None = None
    """StorageClass. Default: under alicloud the first disk of storage.classes, else the cluster's default class."""


class LogSettings(Model):
    """Where the logs of pods go, so that they can be read after the pods are gone."""

    kind: Literal["victoria_logs", "sls", "none"] = "victoria_logs"
    """`victoria_logs`: a store in the cluster; `sls`: Alibaba Cloud's Log Service; `none`: logs are lost with their
    pods."""
    retention_days: Count = Field(default=30, ge=1, le=3650)
    """How long log lines are kept, in days."""
    storage: VolumeSettings = VolumeSettings(size_gib=50)
    """Disk of victoria_logs."""


class RunWebhook(Model):
    """Who is notified when a job completes or fails."""

    secret: DnsSubdomain
    """Secret in `monitoring` with the key `url`: the address that Alertmanager posts to. It must exist first."""
    queue: DnsLabel | None = None
    """Only jobs of this queue. Default: all jobs."""


class AutoscalingSettings(Model):
    """What autoscalers of services read."""

    enabled: bool = False
    """Whether to run prometheus-adapter: autoscalers can then hold the queue and the latency of services, and on the
    cluster of `make up` their CPU."""
    resource_metrics: bool | None = None
    """Whether it also serves CPU and memory of pods and nodes (metrics.k8s.io), as a metrics-server does. Default: only
    on the cluster of `make up`; set it on another cluster without a metrics-server."""

    @model_validator(mode="after")
    def _adapter_serves_them(self) -> Self:
        if self.resource_metrics and not self.enabled:
            raise ValueError(
                "resource_metrics = True: nothing would serve them, because enabled is false. Fix: set enabled to true,"
                " or omit resource_metrics"
            )
        return self


class MonitoringSettings(Model):
    """Metrics, alerts, dashboards and logs."""

    kind: Literal["operator", "existing", "managed", "none"] = "operator"
    """`operator`: our own Prometheus; `existing`: one that already runs, with our rules; `managed`: ACK's; `none`: no
    logs either."""
    namespace: DnsLabel = "monitoring"
    """Namespace that the Prometheus of kind `existing` reads its monitors, rules and dashboards from."""
    selector_labels: dict[str, str] = Field(default_factory=dict)
    """Labels by which that Prometheus selects them, such as {release: kube-prometheus-stack}."""
    retention_days: Count = Field(default=15, ge=1, le=3650)
    """How long samples are kept, in days."""
    storage: VolumeSettings = VolumeSettings(size_gib=50)
    """Disk of Prometheus."""
    alertmanager_storage: VolumeSettings = VolumeSettings()
    """Disk of Alertmanager: silences, and what was sent already."""
    replicas: Count = Field(default=1, ge=1, le=3)
    """Replicas of Prometheus and Alertmanager; with two, alerting survives the loss of a node."""
    memory_limit: MemoryQuantity = "4Gi"
    """Memory above which Prometheus is killed and restarted; it needs about 8 KiB per series."""
    scrape_interval_seconds: Count = Field(default=30, ge=1, le=300)
    """How often targets are scraped; what changes slowly is not scraped more often than every 10 or 30 seconds."""
    grafana: bool = True
    """Whether to run Grafana with our dashboards."""
    grafana_admin_secret: DnsSubdomain | None = None
    """Secret in `monitoring` with the administrator's `user` and `password`. Default: none; there is no login."""
    alertmanager_config_secret: DnsSubdomain | None = None
    """Secret in `monitoring` with key `alertmanager.yaml`: who is notified. Default: alerts are only displayed."""
    run_webhooks: tuple[RunWebhook, ...] = ()
    """Who is notified when jobs end. Default: nobody."""
    thresholds: AlertThresholds = AlertThresholds()
    """From which value on an alert fires."""
    runbook_base_url: str | None = None
    """Base URL of the runbook links in alerts (the pages of docs/runbooks), such as a wiki's address. Default: the path
    alone."""
    logs: LogSettings = LogSettings()
    """Logs that outlive their pods."""
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    """Metrics for autoscalers of services, from our own Prometheus."""

    @property
    def has_metrics_adapter(self) -> bool:
        """Whether prometheus-adapter runs."""
        return self.kind == "operator" and self.autoscaling.enabled

    @model_validator(mode="after")
    def _existing_stack_selects_what_is_ours(self) -> Self:
        if self.kind == "existing" and not self.selector_labels:
            raise ValueError(
                "selector_labels = {}: kind existing needs the labels by which its Prometheus selects, or it would"
                " silently ignore our monitors. Fix: copy them from its podMonitorSelector and ruleSelector, such as"
                " {release: kube-prometheus-stack}"
            )
        return self

    @model_validator(mode="after")
    def _only_our_own_stack_is_shaped_here(self) -> Self:
        useless = [name for name in _OWN_STACK_ONLY if name in self.model_fields_set]
        # `none` is a switch: the other values are kept for the day on which monitoring is turned on again.
        if self.kind not in ("operator", "none") and useless:
            raise ValueError(
                f"kind = {self.kind!r}: {', '.join(useless)} would have no effect, because the stack runs no"
                " Prometheus. Fix: omit them, or set kind to operator"
            )
        return self

    @model_validator(mode="after")
    def _one_configuration_says_who_is_notified(self) -> Self:
        if self.alertmanager_config_secret and self.run_webhooks:
            raise ValueError(
                f"alertmanager_config_secret = {self.alertmanager_config_secret!r}: that configuration has all routes,"
                " so run_webhooks would have no effect. Fix: omit one of them; in your own configuration, route the"
                " alert JobFailed"
            )
        return self

    @model_validator(mode="after")
    def _nobody_is_notified_twice(self) -> Self:
        twice = repeated(f"{webhook.secret} of {webhook.queue or 'all jobs'}" for webhook in self.run_webhooks)
        if twice:
            raise ValueError(f"run_webhooks repeats the secret {twice[0]}. Fix: list it once")
        return self

    @model_validator(mode="after")
    def _administrator_needs_grafana(self) -> Self:
        if self.grafana_admin_secret and not (self.grafana and self.kind == "operator"):
            raise ValueError(
                f"grafana_admin_secret = {self.grafana_admin_secret!r}: the stack runs no Grafana. Fix: omit it, or"
                " set grafana to true and kind to operator"
            )
        return self
