"""Grafana's dashboards as typed code: one module each, of panels that answer a question written in them."""

from infra.monitoring.dashboards.all_boards import dashboards

__all__ = ["dashboards"]
