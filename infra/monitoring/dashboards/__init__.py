"""Grafana's dashboards as typed code: one module each, and every panel answers a question that it states."""

from infra.monitoring.dashboards.all_boards import dashboards

__all__ = ["dashboards"]
