"""From which value on an alert fires."""

from __future__ import annotations

from infra.settings.fields import Model


class AlertThresholds(Model):
    """From which value on an alert fires; every alert's page under docs/runbooks says what the value means."""
